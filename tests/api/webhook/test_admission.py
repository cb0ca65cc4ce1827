"""JSON patches that the webhook computes."""

import copy
from typing import Any

import pytest
from hypothesis import given

from launcher.api.webhook.admission import json_patch
from launcher.store.patch import apply_json_patch
from tests.core.manifests import json_values


@given(json_values, json_values)
def test_a_json_patch_converts_one_value_to_the_other(old: Any, new: Any) -> None:
    root = {"spec": old}

    operations = list(json_patch(old, new, "/spec"))

    assert apply_json_patch(root, operations) == {"spec": new}


@given(json_values)
def test_equal_values_have_an_empty_json_patch(value: Any) -> None:
    again = copy.deepcopy(value)

    assert list(json_patch(value, again)) == []


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
def test_a_json_patch_is_minimal(old: Any, new: Any, operation: dict[str, Any]) -> None:
    assert list(json_patch(old, new)) == [operation]
