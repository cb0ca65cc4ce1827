"""Who owns which field: at the first apply, after each kind of write, and where two want the same."""

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


def an_owner(
    manager: str, *fields: Path, operation: ManagerOperation = ManagerOperation.APPLY
) -> FieldManager:
    return FieldManager(manager, operation, frozenset(fields), NOW)


def fields_of(owners: FieldManagers, manager: str) -> FieldSet:
    return frozenset().union(*(owner.fields for owner in owners if owner.manager == manager))


def created(obj: Json, manager: str = "one") -> tuple[Json, FieldManagers]:
    """A Framework that was created by applying it, and its owners."""
    new = stored(obj)
    return new, managers_after_apply({}, new, (), fields_in(obj), manager, NOW)


# The first apply


def test_who_applies_something_new_owns_that_and_no_defaults() -> None:
    obj = a_framework(description="d")

    _, owners = created(obj)

    assert owners == (FieldManager("one", ManagerOperation.APPLY, fields_in(obj), NOW),)


def test_what_was_there_before_the_first_apply_has_an_owner_of_its_own() -> None:
    live = stored(a_framework(description="d"))

    assert initial_managers(live, "one", NOW) == (
        FieldManager(BEFORE_FIRST_APPLY, ManagerOperation.UPDATE, fields_in(live), NOW),
    )


def with_last_applied(config: Json, live: Json) -> Json:
    """*live* with the note that kubectl has applied *config*."""
    annotations = {LAST_APPLIED: orjson.dumps(config).decode()}
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}


def test_kubectl_owns_what_it_has_applied_by_itself_and_nobody_owns_its_note() -> None:
    config = a_framework(a_role(startAfter=[{"role": "ps"}]), a_role("ps"), description="d")
    live = with_last_applied(
        config, stored({**config, "spec": {**config["spec"], "description": "another's"}})
    )

    owners = initial_managers(live, "kubectl", NOW)

    assert fields_of(owners, "kubectl") == fields_in(config) - {DESCRIPTION}
    assert fields_of(owners, BEFORE_FIRST_APPLY) == {DESCRIPTION}


def test_a_note_of_kubectl_is_nothing_to_another() -> None:
    config = a_framework()

    owners = initial_managers(with_last_applied(config, stored(config)), "one", NOW)

    assert [owner.manager for owner in owners] == [BEFORE_FIRST_APPLY]


@pytest.mark.parametrize("note", ["", "{", "[]", "null", '{"spec": 1}', '{"spec":{"taskRoles":{}}}'])
def test_a_note_that_says_nothing_is_passed_over(note: str) -> None:
    live = stored(a_framework())
    live["metadata"]["annotations"] = {LAST_APPLIED: note}

    assert fields_of(initial_managers(live, "kubectl", NOW), BEFORE_FIRST_APPLY) == fields_in(
        stored(a_framework())
    )


# Conflicts


def test_a_field_that_another_owns_is_not_changed_without_a_word() -> None:
    live, owners = created(a_framework(description="one"))
    desired = a_framework(a_role(tasks=9), description="two")

    found = manager_conflicts(live, stored(desired), owners, fields_in(desired), "two")

    assert [(clash.manager.manager, clash.field) for clash in found] == [
        ("one", ".spec.description"),
        ("one", '.spec.taskRoles[name="worker"].taskNumber'),
    ]


def test_the_same_value_is_shared() -> None:
    live, owners = created(a_framework(description="one"))
    desired = fields_in(a_framework(description="one"))

    assert not manager_conflicts(live, live, owners, desired, "two")
    shared = managers_after_apply(live, live, owners, desired, "two", LATER)
    assert fields_of(shared, "one") == fields_of(shared, "two") == desired


def test_one_manager_that_applies_is_not_the_same_as_when_it_updates() -> None:
    live = stored(a_framework(description="d"))
    owners = (an_owner("one", DESCRIPTION, operation=ManagerOperation.UPDATE),)
    desired = {"spec": {"description": "new"}}

    found = manager_conflicts(live, stored(a_framework(description="new")), owners, fields_in(desired), "one")

    assert [str(clash.manager) for clash in found] == [f'"one" using launcher.microsoft.com/v1 at {NOW}']


def test_kubectl_goes_on_with_what_it_has_applied_by_itself() -> None:
    config = a_framework(description="old")
    live = with_last_applied(config, stored(config))
    owners = (an_owner("kubectl-client-side-apply", DESCRIPTION, operation=ManagerOperation.UPDATE),)
    new, desired = stored(a_framework(description="new")), frozenset({DESCRIPTION})

    assert not manager_conflicts(live, new, owners, desired, "kubectl")
    assert manager_conflicts(live, new, owners, desired, "another")


def test_force_moves_what_changes_and_nothing_else() -> None:
    live, owners = created(a_framework(description="one"))
    desired = a_framework(description="two")

    moved = managers_after_apply(live, stored(desired), owners, fields_in(desired), "two", LATER)

    assert fields_of(moved, "one") == fields_in(desired) - {DESCRIPTION}
    assert fields_of(moved, "two") == fields_in(desired)


# What is no longer applied


def test_a_field_left_out_goes_with_its_only_owner() -> None:
    _, owners = created(a_framework(description="one"))

    assert dropped_fields(owners, fields_in(a_framework()), "one") == {DESCRIPTION}


@pytest.mark.parametrize("operation", ManagerOperation)
def test_a_field_left_out_stays_as_long_as_another_owns_it(operation: ManagerOperation) -> None:
    owners = (an_owner("one", DESCRIPTION), an_owner("two", DESCRIPTION, operation=operation))

    assert dropped_fields(owners, frozenset(), "one") == frozenset()


def test_what_was_never_applied_stays() -> None:
    assert dropped_fields((an_owner("one", DESCRIPTION),), frozenset(), "two") == frozenset()


def test_a_map_goes_whole_so_that_no_defaults_of_it_stay() -> None:
    ports: Path = ("f:spec", "f:discovery", "f:ports", "f:worker")

    assert dropped_fields((an_owner("one", ports),), frozenset(), "one") == {("f:spec", "f:discovery")}


def test_a_role_goes_whole_unless_another_owns_something_in_it() -> None:
    manager = an_owner("one", WORKER, (*WORKER, "f:name"), PS, (*PS, "f:name"), (*PS, "f:task"))
    other = an_owner("two", (*PS, "f:taskNumber"))

    dropped = dropped_fields((manager, other), frozenset(), "one")

    assert dropped == {WORKER, (*PS, "f:name"), (*PS, "f:task")}


def test_the_metadata_itself_never_goes() -> None:
    label: Path = ("f:metadata", "f:labels", "f:a")

    assert dropped_fields((an_owner("one", label),), frozenset(), "one") == {("f:metadata", "f:labels")}


# Other writes


def test_who_changes_a_field_takes_it_from_everybody() -> None:
    live, owners = created(a_framework(description="one"))

    after = managers_after_update(live, stored(a_framework(description="new")), owners, "two", LATER)

    assert DESCRIPTION not in fields_of(after, "one")
    assert after[-1] == FieldManager("two", ManagerOperation.UPDATE, frozenset({DESCRIPTION}), LATER)


def test_who_changes_one_field_after_another_owns_both() -> None:
    live, owners = created(a_framework(description="one"))
    described = stored(a_framework(description="new"))
    scaled = stored(a_framework(a_role(tasks=7), description="new"))

    after = managers_after_update(live, described, owners, "two", NOW)
    after = managers_after_update(described, scaled, after, "two", LATER)

    assert after[-1] == FieldManager(
        "two", ManagerOperation.UPDATE, frozenset({DESCRIPTION, (*WORKER, "f:taskNumber")}), LATER
    )


def test_a_field_that_is_removed_is_owned_by_nobody() -> None:
    live, owners = created(a_framework(description="one"))

    after = managers_after_update(live, stored(a_framework()), owners, "two", LATER)

    assert not any(DESCRIPTION in owner.fields for owner in after)


def test_since_when_stays_when_nothing_changes() -> None:
    live, owners = created(a_framework(description="one"))

    assert managers_after_apply(live, live, owners, owners[0].fields, "one", LATER) == owners
    assert managers_to_json(managers_after_update(live, live, owners, "two", LATER)) == managers_to_json(
        owners
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
def test_after_any_writes_owned_fields_are_there_and_the_last_writer_owns_what_it_changed(
    first: Json, later: list[tuple[str, ManagerOperation, Json]]
) -> None:
    live, owners = created(first)

    for manager, operation, obj in later:
        new = stored(obj)
        if operation is ManagerOperation.APPLY:
            owners = managers_after_apply(live, new, owners, fields_in(obj), manager, LATER)
            assert not manager_conflicts(live, new, owners, fields_in(obj), manager)
            assert fields_in(obj) <= fields_of(owners, manager)
        else:
            changed = {path for path in fields_in(new) if not is_set(live, path)}
            owners = managers_after_update(live, new, owners, manager, LATER)
            assert changed <= fields_of(owners, manager)
        live = new
        assert all(is_set(live, path) for owner in owners for path in owner.fields)
        assert managers_from_json(managers_to_json(owners)) == tuple(
            owner for owner in owners if owner.fields
        )


# On the wire


def test_an_owner_is_told_as_kubernetes_tells_it() -> None:
    assert managers_to_json((an_owner("one", DESCRIPTION), an_owner("nothing"))) == [
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
def test_a_record_of_another_form_is_rejected(entries: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        managers_from_json(entries)
