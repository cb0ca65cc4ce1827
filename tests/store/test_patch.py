from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import BadRequest, InvalidObject, TooLarge
from launcher.store.interface import MergePatch
from launcher.store.patch import MAX_COPIED_BYTES, apply_json_patch, apply_merge_patch, apply_patch

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
def test_merge_patches_follow_the_rfc(target: Any, changes: Any, result: Any) -> None:
    assert apply_merge_patch(target, changes) == result


@given(values, values)
def test_a_merge_patch_applied_twice_does_nothing_the_second_time(target: Any, changes: Any) -> None:
    once = apply_merge_patch(target, changes)

    assert apply_merge_patch(once, changes) == once


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
def test_operations_follow_the_rfc(document: Any, operation: Any, result: Any) -> None:
    assert apply_json_patch(document, [operation]) == result


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
        pytest.param({}, "add", id="unknown operation"),
    ],
)
def test_a_failing_operation_is_named(document: Any, operation: Any) -> None:
    with pytest.raises(InvalidObject, match="operation 1 of the JSON patch"):
        apply_json_patch(document, [op("test", "", value=document), operation])


@given(
    values, st.lists(st.tuples(st.sampled_from(["add", "replace", "remove"]), st.text("ab/01-~", max_size=4)))
)
def test_the_document_is_never_modified(document: Any, steps: list[tuple[str, str]]) -> None:
    before = repr(document)
    with suppress(InvalidObject):
        apply_json_patch(document, [op(name, path, value=[]) for name, path in steps])

    assert repr(document) == before


@given(values, values)
def test_added_values_can_be_tested_and_removed(document: Any, value: Any) -> None:
    whole = {"rest": document}

    steps = [op("add", "/new", value=value), op("test", "/new", value=value), op("remove", "/new")]

    assert apply_json_patch(whole, steps) == whole


def test_the_size_of_copies_is_limited() -> None:
    doubling = [op("add", "/a", value=["x" * 100])] + [
        op("copy", "/a/-", **{"from": "/a"}) for _ in range(40)
    ]

    with pytest.raises(TooLarge):
        apply_json_patch({}, doubling)


def test_a_patch_that_is_nested_too_deeply_is_rejected() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}

    with pytest.raises(BadRequest, match="deep"):
        apply_patch({}, MergePatch(deep))


def test_a_copy_that_is_too_large_is_rejected_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"a": ["x" * 1000] * (MAX_COPIED_BYTES // 1000 + 1)}
    decoded: list[int] = []
    loads = orjson.loads

    def count(data: bytes) -> object:
        decoded.append(len(data))
        return loads(data)

    monkeypatch.setattr("launcher.store.patch.orjson.loads", count)
    monkeypatch.setattr("launcher.store.patch.copy.deepcopy", lambda _: pytest.fail("copied"))

    with pytest.raises(TooLarge):
        apply_json_patch(document, [{"op": "copy", "from": "/a", "path": "/b"}])

    assert len(decoded) == 1, "only the document itself was copied"


def test_a_value_with_invalid_unicode_cannot_be_copied() -> None:
    with pytest.raises(InvalidObject, match="operation 0"):
        apply_json_patch({"a": "\ud800"}, [{"op": "copy", "from": "/a", "path": "/b"}])
