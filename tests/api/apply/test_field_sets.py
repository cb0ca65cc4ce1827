"""Sets of fields: from objects, to and from the wire, and what they take out of an object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.api.apply.field_sets import (
    fields_in,
    format_path,
    from_fields_v1,
    is_same,
    is_set,
    to_fields_v1,
    without,
)
from tests.builders import Json, a_framework, a_role
from tests.core.manifests import full_framework, json_values

WORKER = ("f:spec", "f:taskRoles", 'k:{"name":"worker"}')

parts = st.sampled_from(["f:a", "f:b", "f:.", 'k:{"name":"worker"}', 'v:"x"', "i:0"])
field_sets = st.frozensets(st.lists(parts, min_size=1, max_size=4).map(tuple), max_size=8)
#: Roles with distinct merge keys, and some without.
role_lists = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["worker", "ps", "chief"])},
        optional={"taskNumber": st.integers(0, 3), "task": json_values},
    ),
    max_size=3,
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={"name": st.just("a"), "labels": json_values, "annotations": json_values},
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"taskRoles": role_lists | json_values, "gang": json_values, "other": json_values}
        ),
    },
)


@given(field_sets)
def test_a_set_comes_back_from_the_wire_as_it_was(fields: frozenset[tuple[str, ...]]) -> None:
    assert from_fields_v1(to_fields_v1(fields)) == fields


@given(field_sets)
def test_the_wire_has_one_spelling_for_each_set(fields: frozenset[tuple[str, ...]]) -> None:
    wire = to_fields_v1(fields)

    assert to_fields_v1(from_fields_v1(wire)) == wire


@given(objects)
def test_an_object_sets_each_of_its_fields_and_is_the_same_as_itself_there(obj: Json) -> None:
    for path in fields_in(obj):
        assert is_set(obj, path)
        assert is_same(obj, obj, path)


@given(objects, st.data())
def test_a_field_that_is_taken_out_is_gone_and_no_other_changes(obj: Json, data: st.DataObject) -> None:
    fields = sorted(path for path in fields_in(obj) if path[3:] != ("f:name",))
    taken = data.draw(st.sets(st.sampled_from(fields)) if fields else st.just(set()))

    left = without(obj, taken)

    for path in fields:
        if any(path[: len(removed)] == removed for removed in taken):
            assert not is_set(left, path)
        else:
            assert is_same(obj, left, path)
    assert fields_in(left) >= {
        path for path in fields if not any(path[: len(removed)] == removed for removed in taken)
    }


def test_maps_are_gone_into_and_lists_are_one_field() -> None:
    obj = a_framework(a_role(pod={"spec": {"containers": [{"name": "main"}]}}), gang={})
    obj["metadata"] |= {"labels": {"a.b/c": "1"}, "uid": "x", "finalizers": ["y"]}

    assert fields_in({**obj, "status": {"state": "Running"}}) == {
        ("f:metadata", "f:labels", "f:a.b/c"),
        ("f:spec", "f:gang"),
        WORKER,
        (*WORKER, "f:name"),
        (*WORKER, "f:taskNumber"),
        (*WORKER, "f:task", "f:pod", "f:spec", "f:containers"),
    }


def test_roles_that_cannot_be_told_apart_are_one_field() -> None:
    assert fields_in({"spec": {"taskRoles": [{"name": "a"}, {"name": "a"}]}}) == {("f:spec", "f:taskRoles")}
    assert fields_in({"spec": {"taskRoles": [{"taskNumber": 1}]}}) == {("f:spec", "f:taskRoles")}


def test_null_sets_nothing() -> None:
    assert fields_in({"metadata": {"labels": {"a": None}}, "spec": {"gang": None}}) == frozenset()


def test_a_bare_frame_sets_nothing() -> None:
    assert fields_in({"metadata": {"labels": {}}, "spec": {}}) == frozenset()


def test_true_is_not_the_same_as_one() -> None:
    assert not is_same({"spec": {"a": 1}}, {"spec": {"a": True}}, ("f:spec", "f:a"))


def test_the_wire_is_kubernetes_own() -> None:
    fields = fields_in({"spec": {"taskRoles": [{"name": "worker", "taskNumber": 1}], "gang": {}}})

    assert to_fields_v1(fields) == {
        "f:spec": {
            "f:gang": {},
            "f:taskRoles": {'k:{"name":"worker"}': {".": {}, "f:name": {}, "f:taskNumber": {}}},
        }
    }


@pytest.mark.parametrize("wire", [{"spec": {}}, {"f:spec": []}, {"f:spec": {".": {}, "x": {}}}, []])
def test_what_spells_no_set_is_rejected(wire: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        from_fields_v1(wire)


def test_a_path_is_shown_as_people_know_it() -> None:
    assert format_path((*WORKER, "f:taskNumber")) == '.spec.taskRoles[name="worker"].taskNumber'


def test_a_whole_role_can_be_taken_out() -> None:
    obj = a_framework(a_role("worker"), a_role("ps"))

    assert without(obj, [WORKER]) == a_framework(a_role("ps"))


def test_a_role_that_stays_keeps_its_name() -> None:
    taken = [(*WORKER, field) for field in ("f:name", "f:task", "f:background")]

    assert without(a_framework(a_role(background=True)), taken) == a_framework(
        {"name": "worker", "taskNumber": 2}
    )


def test_nothing_is_taken_out_of_the_object_itself() -> None:
    obj = full_framework()

    assert without(obj, fields_in(obj))["spec"] != obj["spec"]
    assert obj == full_framework()
