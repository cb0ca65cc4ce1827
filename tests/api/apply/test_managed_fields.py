"""Managers of fields: at the first apply, after each kind of write, and conflicts."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.api.apply.field_sets import FieldSet, Path, fields_in, is_set
from launcher.api.apply.managed_fields import (
    BEFORE_FIRST_APPLY,
    LAST_APPLIED,
    FieldManager,
    FieldManagers,
    ManagerOperation,
    dropped_fields,
    initial_managers,
    manager_conflicts,
    managers_after_apply,
    managers_after_update,
    managers_from_json,
    managers_to_json,
)
from launcher.core.errors import BadRequest
from launcher.core.manifest import validate_framework
from tests.builders import Json, a_framework, a_role

NOW, LATER = "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z"
DESCRIPTION: Path = ("f:spec", "f:description")
WORKER: Path = ("f:spec", "f:taskRoles", 'k:{"name":"worker"}')
PS: Path = ("f:spec", "f:taskRoles", 'k:{"name":"ps"}')


def stored(obj: Json) -> Json:
    return validate_framework(obj).object


def a_manager(
    manager: str, *fields: Path, operation: ManagerOperation = ManagerOperation.APPLY
) -> FieldManager:
    return FieldManager(manager, operation, frozenset(fields), NOW)


def fields_of(managers: FieldManagers, name: str) -> FieldSet:
    return frozenset().union(*(manager.fields for manager in managers if manager.manager == name))


def created(obj: Json, manager: str = "one") -> tuple[Json, FieldManagers]:
    """A Framework that was created by applying it, and its managers."""
    new = stored(obj)
    return new, managers_after_apply({}, new, (), fields_in(obj), manager, NOW)


# The first apply


def test_an_apply_that_creates_an_object_owns_the_applied_fields_without_defaults() -> None:
    obj = a_framework(description="d")

    _, managers = created(obj)

    assert managers == (FieldManager("one", ManagerOperation.APPLY, fields_in(obj), NOW),)


def test_fields_set_before_the_first_apply_have_their_own_manager() -> None:
    live = stored(a_framework(description="d"))

    assert initial_managers(live, "one", NOW) == (
        FieldManager(BEFORE_FIRST_APPLY, ManagerOperation.UPDATE, fields_in(live), NOW),
    )


def with_last_applied(config: Json, live: Json) -> Json:
    """*live* with the annotation of a client-side apply of *config*."""
    annotations = {LAST_APPLIED: orjson.dumps(config).decode()}
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}


def test_kubectl_owns_the_fields_of_its_client_side_apply_except_the_annotation() -> None:
    config = a_framework(a_role(startAfter=[{"role": "ps"}]), a_role("ps"), description="d")
    live = with_last_applied(
        config, stored({**config, "spec": {**config["spec"], "description": "another's"}})
    )

    managers = initial_managers(live, "kubectl", NOW)

    assert fields_of(managers, "kubectl") == fields_in(config) - {DESCRIPTION}
    assert fields_of(managers, BEFORE_FIRST_APPLY) == {DESCRIPTION}


def test_the_last_applied_annotation_is_ignored_for_other_managers() -> None:
    config = a_framework()

    managers = initial_managers(with_last_applied(config, stored(config)), "one", NOW)

    assert [manager.manager for manager in managers] == [BEFORE_FIRST_APPLY]


@pytest.mark.parametrize("annotation", ["", "{", "[]", "null", '{"spec": 1}', '{"spec":{"taskRoles":{}}}'])
def test_a_malformed_last_applied_annotation_is_ignored(annotation: str) -> None:
    live = stored(a_framework())
    live["metadata"]["annotations"] = {LAST_APPLIED: annotation}

    assert fields_of(initial_managers(live, "kubectl", NOW), BEFORE_FIRST_APPLY) == fields_in(
        stored(a_framework())
    )


# Conflicts


def test_a_change_of_a_field_of_another_manager_is_a_conflict() -> None:
    live, managers = created(a_framework(description="one"))
    desired = a_framework(a_role(tasks=9), description="two")

    found = manager_conflicts(live, stored(desired), managers, fields_in(desired), "two")

    assert [(conflict.manager.manager, conflict.field) for conflict in found] == [
        ("one", ".spec.description"),
        ("one", '.spec.taskRoles[name="worker"].taskNumber'),
    ]


def test_two_managers_that_apply_the_same_value_own_the_field_together() -> None:
    live, managers = created(a_framework(description="one"))
    desired = fields_in(a_framework(description="one"))

    assert not manager_conflicts(live, live, managers, desired, "two")
    shared = managers_after_apply(live, live, managers, desired, "two", LATER)
    assert fields_of(shared, "one") == fields_of(shared, "two") == desired


def test_apply_and_update_of_one_manager_conflict() -> None:
    live = stored(a_framework(description="d"))
    managers = (a_manager("one", DESCRIPTION, operation=ManagerOperation.UPDATE),)
    desired = {"spec": {"description": "new"}}

    found = manager_conflicts(
        live, stored(a_framework(description="new")), managers, fields_in(desired), "one"
    )

    assert [str(conflict.manager) for conflict in found] == [
        f'"one" using launcher.microsoft.com/v1 at {NOW}'
    ]


def test_a_server_side_apply_of_kubectl_does_not_conflict_with_its_client_side_apply() -> None:
    config = a_framework(description="old")
    live = with_last_applied(config, stored(config))
    managers = (a_manager("kubectl-client-side-apply", DESCRIPTION, operation=ManagerOperation.UPDATE),)
    new, desired = stored(a_framework(description="new")), frozenset({DESCRIPTION})

    assert not manager_conflicts(live, new, managers, desired, "kubectl")
    assert manager_conflicts(live, new, managers, desired, "another")


def test_a_forced_apply_takes_only_the_changed_fields() -> None:
    live, managers = created(a_framework(description="one"))
    desired = a_framework(description="two")

    moved = managers_after_apply(live, stored(desired), managers, fields_in(desired), "two", LATER)

    assert fields_of(moved, "one") == fields_in(desired) - {DESCRIPTION}
    assert fields_of(moved, "two") == fields_in(desired)


# Fields that are no longer applied


def test_a_field_that_its_only_manager_omits_is_removed() -> None:
    _, managers = created(a_framework(description="one"))

    assert dropped_fields(managers, fields_in(a_framework()), "one") == {DESCRIPTION}


@pytest.mark.parametrize("operation", ManagerOperation)
def test_an_omitted_field_is_kept_while_another_manager_owns_it(operation: ManagerOperation) -> None:
    managers = (a_manager("one", DESCRIPTION), a_manager("two", DESCRIPTION, operation=operation))

    assert dropped_fields(managers, frozenset(), "one") == frozenset()


def test_a_field_that_the_manager_never_applied_is_kept() -> None:
    assert dropped_fields((a_manager("one", DESCRIPTION),), frozenset(), "two") == frozenset()


def test_a_map_is_removed_whole_with_its_defaults() -> None:
    ports: Path = ("f:spec", "f:discovery", "f:ports", "f:worker")

    assert dropped_fields((a_manager("one", ports),), frozenset(), "one") == {("f:spec", "f:discovery")}


def test_a_role_is_removed_whole_unless_another_manager_owns_a_field_of_it() -> None:
    manager = a_manager("one", WORKER, (*WORKER, "f:name"), PS, (*PS, "f:name"), (*PS, "f:task"))
    other = a_manager("two", (*PS, "f:taskNumber"))

    dropped = dropped_fields((manager, other), frozenset(), "one")

    assert dropped == {WORKER, (*PS, "f:name"), (*PS, "f:task")}


def test_the_metadata_itself_is_never_removed() -> None:
    label: Path = ("f:metadata", "f:labels", "f:a")

    assert dropped_fields((a_manager("one", label),), frozenset(), "one") == {("f:metadata", "f:labels")}


# Other writes


def test_an_update_takes_a_changed_field_from_all_other_managers() -> None:
    live, managers = created(a_framework(description="one"))

    after = managers_after_update(live, stored(a_framework(description="new")), managers, "two", LATER)

    assert DESCRIPTION not in fields_of(after, "one")
    assert after[-1] == FieldManager("two", ManagerOperation.UPDATE, frozenset({DESCRIPTION}), LATER)


def test_two_updates_of_one_manager_are_one_entry() -> None:
    live, managers = created(a_framework(description="one"))
    described = stored(a_framework(description="new"))
    scaled = stored(a_framework(a_role(tasks=7), description="new"))

    after = managers_after_update(live, described, managers, "two", NOW)
    after = managers_after_update(described, scaled, after, "two", LATER)

    assert after[-1] == FieldManager(
        "two", ManagerOperation.UPDATE, frozenset({DESCRIPTION, (*WORKER, "f:taskNumber")}), LATER
    )


def test_a_removed_field_has_no_manager() -> None:
    live, managers = created(a_framework(description="one"))

    after = managers_after_update(live, stored(a_framework()), managers, "two", LATER)

    assert not any(DESCRIPTION in manager.fields for manager in after)


def test_the_time_of_an_entry_does_not_change_if_no_field_changes() -> None:
    live, managers = created(a_framework(description="one"))

    assert managers_after_apply(live, live, managers, managers[0].fields, "one", LATER) == managers
    assert managers_to_json(managers_after_update(live, live, managers, "two", LATER)) == managers_to_json(
        managers
    )


frameworks = st.builds(
    lambda description, roles, labels: {
        **a_framework(*roles, **({"description": description} if description else {})),
        "metadata": {"name": "a", "labels": labels},
    },
    st.sampled_from(["", "x", "y"]),
    st.lists(
        st.builds(a_role, st.sampled_from(["a", "b", "c"]), st.integers(1, 2)),
        min_size=1,
        unique_by=lambda role: role["name"],
    ),
    st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", "2"])),
)
writes = st.lists(
    st.tuples(st.sampled_from(["one", "two"]), st.sampled_from(ManagerOperation), frameworks), max_size=5
)


@given(frameworks, writes)
def test_after_any_writes_owned_fields_are_set_and_the_last_writer_owns_its_changes(
    first: Json, later: list[tuple[str, ManagerOperation, Json]]
) -> None:
    live, managers = created(first)

    for manager, operation, obj in later:
        new = stored(obj)
        if operation is ManagerOperation.APPLY:
            managers = managers_after_apply(live, new, managers, fields_in(obj), manager, LATER)
            assert not manager_conflicts(live, new, managers, fields_in(obj), manager)
            assert fields_in(obj) <= fields_of(managers, manager)
        else:
            changed = {path for path in fields_in(new) if not is_set(live, path)}
            managers = managers_after_update(live, new, managers, manager, LATER)
            assert changed <= fields_of(managers, manager)
        live = new
        assert all(is_set(live, path) for manager in managers for path in manager.fields)
        assert managers_from_json(managers_to_json(managers)) == tuple(
            manager for manager in managers if manager.fields
        )


# As JSON


def test_a_manager_is_serialized_as_by_kubernetes() -> None:
    assert managers_to_json((a_manager("one", DESCRIPTION), a_manager("nothing"))) == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "launcher.microsoft.com/v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:description": {}}},
        }
    ]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param({}, "must be a list", id="no list"),
        pytest.param(["one"], r"\[0\] must be an object", id="no object"),
        pytest.param(
            [{"manager": 1, "operation": "Apply"}], r"\[0\]\.manager must be a string", id="manager"
        ),
        pytest.param([{"operation": "Take"}], r"\[0\]\.operation must be Apply or Update", id="operation"),
        pytest.param([{"operation": "Apply", "fieldsType": "V2"}], "must be FieldsV1", id="type"),
        pytest.param([{"operation": "Apply", "fieldsV1": {"x": {}}}], r"fieldsV1: 'x'", id="fields"),
        pytest.param([{"operation": "Apply"}] * 2, "one entry per manager", id="twice"),
    ],
)
def test_malformed_managed_fields_are_rejected(entries: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        managers_from_json(entries)
