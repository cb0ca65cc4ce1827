"""Sets of fields: of objects, to and from FieldsV1, and their removal from an object."""

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
def test_a_field_set_is_equal_after_conversion_to_fields_v1_and_back(
    fields: frozenset[tuple[str, ...]],
) -> None:
    assert from_fields_v1(to_fields_v1(fields)) == fields


@given(field_sets)
def test_a_field_set_has_one_form_in_fields_v1(fields: frozenset[tuple[str, ...]]) -> None:
    fields_v1 = to_fields_v1(fields)

    assert to_fields_v1(from_fields_v1(fields_v1)) == fields_v1


@given(objects)
def test_every_field_of_an_object_is_set_and_equal_to_itself(obj: Json) -> None:
    for path in fields_in(obj):
        assert is_set(obj, path)
        assert is_same(obj, obj, path)


@given(objects, st.data())
def test_a_removed_field_is_not_set_and_other_fields_do_not_change(obj: Json, data: st.DataObject) -> None:
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


def test_the_keys_of_a_map_are_fields_and_a_list_is_one_field() -> None:
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


def test_roles_without_unique_names_are_one_field() -> None:
    assert fields_in({"spec": {"taskRoles": [{"name": "a"}, {"name": "a"}]}}) == {("f:spec", "f:taskRoles")}
    assert fields_in({"spec": {"taskRoles": [{"taskNumber": 1}]}}) == {("f:spec", "f:taskRoles")}


def test_null_is_not_a_field() -> None:
    assert fields_in({"metadata": {"labels": {"a": None}}, "spec": {"gang": None}}) == frozenset()


def test_empty_metadata_and_spec_have_no_fields() -> None:
    assert fields_in({"metadata": {"labels": {}}, "spec": {}}) == frozenset()


def test_true_does_not_equal_one() -> None:
    assert not is_same({"spec": {"a": 1}}, {"spec": {"a": True}}, ("f:spec", "f:a"))


def test_fields_v1_has_the_format_of_kubernetes() -> None:
    fields = fields_in({"spec": {"taskRoles": [{"name": "worker", "taskNumber": 1}], "gang": {}}})

    assert to_fields_v1(fields) == {
        "f:spec": {
            "f:gang": {},
            "f:taskRoles": {'k:{"name":"worker"}': {".": {}, "f:name": {}, "f:taskNumber": {}}},
        }
    }


@pytest.mark.parametrize("fields_v1", [{"spec": {}}, {"f:spec": []}, {"f:spec": {".": {}, "x": {}}}, []])
def test_malformed_fields_v1_is_rejected(fields_v1: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        from_fields_v1(fields_v1)


def test_a_path_is_formatted_as_in_messages_of_kubernetes() -> None:
    assert format_path((*WORKER, "f:taskNumber")) == '.spec.taskRoles[name="worker"].taskNumber'


def test_a_whole_role_can_be_removed() -> None:
    obj = a_framework(a_role("worker"), a_role("ps"))

    assert without(obj, [WORKER]) == a_framework(a_role("ps"))


def test_a_role_with_remaining_fields_keeps_its_name() -> None:
    taken = [(*WORKER, field) for field in ("f:name", "f:task", "f:background")]

    assert without(a_framework(a_role(background=True)), taken) == a_framework(
        {"name": "worker", "taskNumber": 2}
    )


def test_the_removal_of_fields_does_not_change_the_given_object() -> None:
    obj = full_framework()

    assert without(obj, fields_in(obj))["spec"] != obj["spec"]
    assert obj == full_framework()
