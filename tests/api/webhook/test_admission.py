"""JSON patches that are made, not sent."""

import copy
from typing import Any

import pytest
from hypothesis import given

from launcher.api.webhook.admission import difference
from launcher.store.patch import operated
from tests.core.manifests import json_values


@given(json_values, json_values)
def test_a_difference_makes_the_one_out_of_the_other(old: Any, new: Any) -> None:
    root = {"spec": old}

    operations = list(difference(old, new, "/spec"))

    assert operated(root, operations) == {"spec": new}


@given(json_values)
def test_what_is_alike_has_no_difference(value: Any) -> None:
    again = copy.deepcopy(value)

    assert list(difference(value, again)) == []


@pytest.mark.parametrize(
    ("old", "new", "operation"),
    [
        pytest.param({"a": 1}, {"a": 1, "b": 2}, {"op": "add", "path": "/b", "value": 2}, id="a new member"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, {"op": "remove", "path": "/b"}, id="a lost member"),
        pytest.param(
            {"a": [{"b": 1}, 2]},
            {"a": [{"b": 3}, 2]},
            {"op": "replace", "path": "/a/0/b", "value": 3},
            id="one place deep inside",
        ),
        pytest.param([1], [1, 2], {"op": "replace", "path": "", "value": [1, 2]}, id="a longer list"),
        pytest.param(
            {"a/b~c": 1},
            {"a/b~c": 2},
            {"op": "replace", "path": "/a~1b~0c", "value": 2},
            id="a name with a slash",
        ),
        pytest.param(
            {"a": 1}, {"a": True}, {"op": "replace", "path": "/a", "value": True}, id="equal to Python alone"
        ),
    ],
)
def test_a_difference_is_no_larger_than_it_has_to_be(old: Any, new: Any, operation: dict[str, Any]) -> None:
    assert list(difference(old, new)) == [operation]
