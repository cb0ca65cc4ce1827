from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import BadRequest, InvalidObject, TooLarge
from launcher.store.interface import MergePatch
from launcher.store.patch import merged, operated, patched

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3)
    ),
)


@pytest.mark.parametrize(
    ("target", "changes", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a"], {"a": {"b": None}}, {"a": {}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "b"}, ["c"], ["c"]),
    ],
)
def test_a_merge_patch_does_what_the_rfc_says(target: Any, changes: Any, result: Any) -> None:
    assert merged(target, changes) == result


@given(values, values)
def test_a_merge_patch_applied_twice_does_nothing_the_second_time(target: Any, changes: Any) -> None:
    once = merged(target, changes)

    assert merged(once, changes) == once


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        pytest.param({}, op("add", "/a", value=1), {"a": 1}, id="add a member"),
        pytest.param({"a": 0}, op("add", "/a", value=1), {"a": 1}, id="add over a member"),
        pytest.param([1, 3], op("add", "/1", value=2), [1, 2, 3], id="add into a list"),
        pytest.param([1], op("add", "/1", value=2), [1, 2], id="add at the end by number"),
        pytest.param([1], op("add", "/-", value=2), [1, 2], id="add at the end"),
        pytest.param({"a": 1}, op("add", "", value=[2]), [2], id="add the whole"),
        pytest.param({"a": 1}, op("remove", "/a"), {}, id="remove a member"),
        pytest.param([1, 2], op("remove", "/0"), [2], id="remove from a list"),
        pytest.param([1, 2], op("replace", "/0", value=3), [3, 2], id="replace in a list"),
        pytest.param({"a": {"b": 1}}, op("move", "/c", **{"from": "/a/b"}), {"a": {}, "c": 1}, id="move"),
        pytest.param([1, 2, 3], op("move", "/2", **{"from": "/0"}), [2, 3, 1], id="move within a list"),
        pytest.param({"a": 1}, op("move", "/a", **{"from": "/a"}), {"a": 1}, id="move to itself"),
        pytest.param({"a": [1]}, op("copy", "/b", **{"from": "/a"}), {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a/b": 1, "m~n": 2}, op("remove", "/a~1b"), {"m~n": 2}, id="slash"),
        pytest.param({"m~1": 2}, op("remove", "/m~01"), {}, id="tilde then one"),
        pytest.param({"": 1}, op("remove", "/"), {}, id="empty name"),
        pytest.param(
            {"a": [1, {"b": None}]}, op("test", "/a/1", value={"b": None}), {"a": [1, {"b": None}]}, id="test"
        ),
        pytest.param({"a": 1}, op("test", "/a", value=1.0), {"a": 1}, id="numbers are equal by value"),
    ],
)
def test_an_operation_does_what_the_rfc_says(document: Any, operation: Any, result: Any) -> None:
    assert operated(document, [operation]) == result


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        pytest.param({}, op("add", "/a/b", value=1), id="no parent"),
        pytest.param({"a": 1}, op("add", "/a/b", value=1), id="parent is a number"),
        pytest.param([1], op("add", "/2", value=2), id="past the end"),
        pytest.param([1], op("add", "/01", value=2), id="leading zero"),
        pytest.param([1], op("add", "/-1", value=2), id="negative"),
        pytest.param([1], op("add", "/x", value=2), id="no number"),
        pytest.param([1], op("remove", "/-"), id="nothing at the end"),
        pytest.param([1], op("replace", "/1", value=2), id="nothing to replace"),
        pytest.param({}, op("replace", "/a", value=2), id="no member to replace"),
        pytest.param({}, op("remove", "/a"), id="nothing to remove"),
        pytest.param({}, op("copy", "/a", **{"from": "/b"}), id="nothing to copy"),
        pytest.param({"a": {}}, op("move", "/a/b", **{"from": "/a"}), id="into itself"),
        pytest.param({"a": 1}, op("test", "/a", value=True), id="true is not 1"),
        pytest.param({"a": 1}, op("test", "/a", value="1"), id="text is not 1"),
        pytest.param({"a": [1]}, op("test", "/a", value=[1, 1]), id="longer list"),
        pytest.param({}, op("test", "/a", value=None), id="absent is not null"),
        pytest.param({}, op("add", "/a"), id="no value"),
        pytest.param({}, op("add", "a", value=1), id="no slash"),
        pytest.param({}, op("add", "/a~2", value=1), id="bad escape"),
        pytest.param({}, {"op": "add", "path": 1, "value": 1}, id="path is a number"),
        pytest.param({}, {"op": "move", "path": "/a"}, id="no from"),
        pytest.param({}, {"op": ["add"], "path": "/a"}, id="op is a list"),
        pytest.param({}, "add", id="operation is a word"),
    ],
)
def test_an_operation_that_cannot_be_done_fails_and_says_which(document: Any, operation: Any) -> None:
    with pytest.raises(InvalidObject, match="operation 1 of the JSON patch"):
        operated(document, [op("test", "", value=document), operation])


@given(
    values, st.lists(st.tuples(st.sampled_from(["add", "replace", "remove"]), st.text("ab/01-~", max_size=4)))
)
def test_the_document_itself_is_never_touched(document: Any, steps: list[tuple[str, str]]) -> None:
    before = repr(document)
    with suppress(InvalidObject):
        operated(document, [op(name, path, value=[]) for name, path in steps])

    assert repr(document) == before


@given(values, values)
def test_what_was_added_can_be_tested_and_removed(document: Any, value: Any) -> None:
    whole = {"rest": document}

    steps = [op("add", "/new", value=value), op("test", "/new", value=value), op("remove", "/new")]

    assert operated(whole, steps) == whole


def test_copies_of_copies_end_at_a_limit() -> None:
    bomb = [op("add", "/a", value=["x" * 100])] + [op("copy", "/a/-", **{"from": "/a"}) for _ in range(40)]

    with pytest.raises(TooLarge):
        operated({}, bomb)


def test_a_patch_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}

    with pytest.raises(BadRequest, match="deep"):
        patched({}, MergePatch(deep))
