"""Rules of writes and deletions that depend on the clock."""

import pytest

from launcher.core.errors import BadRequest
from launcher.store import strategy
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, Object, Propagation
from tests.builders import a_pod
from tests.store.builders import NOW, a_framework, with_


def stored(obj: Object) -> Object:
    kind = PODS if obj["kind"] == "Pod" else FRAMEWORKS
    created = strategy.prepare_create(kind, obj, uid="u", now=NOW)
    created["metadata"]["resourceVersion"] = "1"
    return created


def test_times_are_whole_seconds_in_utc() -> None:
    assert strategy.timestamp(1_700_000_000.999) == "2023-11-14T22:13:20Z"
    assert stored(a_framework())["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"


def test_a_deleted_pod_expires_after_its_grace_period() -> None:
    deleting = strategy.prepare_delete(PODS, stored(a_pod(nodeName="n")), DeleteOptions(grace=10), NOW + 100)

    assert deleting is not None
    assert deleting["metadata"]["deletionTimestamp"] == strategy.timestamp(NOW + 110)


def test_a_shortened_grace_counts_from_the_first_deletion() -> None:
    deleting = strategy.prepare_delete(PODS, stored(a_pod(nodeName="n")), DeleteOptions(grace=30), NOW)
    assert deleting is not None

    sooner = strategy.prepare_delete(PODS, deleting, DeleteOptions(grace=20), NOW + 15)

    assert sooner is not None
    assert sooner["metadata"]["deletionTimestamp"] == strategy.timestamp(NOW + 20)


def test_an_object_waiting_for_a_finalizer_has_no_grace_period() -> None:
    deleting = strategy.prepare_delete(
        FRAMEWORKS, stored(a_framework(finalizers=["x/y"])), DeleteOptions(grace=30), NOW + 5
    )

    assert deleting is not None
    assert deleting["metadata"]["deletionTimestamp"] == strategy.timestamp(NOW + 5)
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("propagation", "held", "finalizers"),
    [
        (None, ["x/y", "orphan"], ["x/y", "orphan"]),
        (Propagation.BACKGROUND, ["x/y", "orphan"], ["x/y"]),
        (Propagation.FOREGROUND, ["x/y", "orphan"], ["x/y", "foregroundDeletion"]),
        (Propagation.ORPHAN, ["foregroundDeletion", "x/y"], ["x/y", "orphan"]),
    ],
)
def test_the_last_propagation_policy_takes_effect(
    propagation: Propagation | None, held: list[str], finalizers: list[str]
) -> None:
    deleting = strategy.prepare_delete(
        FRAMEWORKS, stored(a_framework(finalizers=held)), DeleteOptions(propagation=propagation), NOW
    )

    assert deleting is not None
    assert deleting["metadata"]["finalizers"] == finalizers


def test_the_functions_do_not_modify_their_arguments() -> None:
    passed, before = a_framework(finalizers=["x/y"]), stored(a_framework(finalizers=["x/y"]))
    copies = repr(passed), repr(before)

    strategy.prepare_create(FRAMEWORKS, passed, uid="v", now=NOW)
    strategy.prepare_update(FRAMEWORKS, before, strategy.normalize(FRAMEWORKS, {**before, "spec": {}}))
    strategy.prepare_delete(FRAMEWORKS, before, DeleteOptions(propagation=Propagation.FOREGROUND), NOW)

    assert (repr(passed), repr(before)) == copies


def test_numbers_of_different_types_are_different_values() -> None:
    before = stored(with_(a_framework(), spec={"a": 1}))

    changed = strategy.normalize(FRAMEWORKS, with_(before, spec={"a": 1.0}))
    after = strategy.prepare_update(FRAMEWORKS, before, changed)

    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_a_very_long_grace_period_is_limited_to_a_valid_date() -> None:
    pod = a_pod(nodeName="node", terminationGracePeriodSeconds=10**14)
    before = stored(pod)

    deleting = strategy.prepare_delete(PODS, before, DeleteOptions(), NOW)

    assert deleting is not None
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 2**31 - 1


def test_only_frameworks_store_managed_fields() -> None:
    record = [{"manager": "me"}]

    assert stored(a_framework(managedFields=record))["metadata"]["managedFields"] == record
    assert (
        "managedFields"
        not in stored(
            with_(a_pod(), metadata={"name": "p", "namespace": "default", "managedFields": record})
        )["metadata"]
    )


@pytest.mark.parametrize("record", ["me", {"manager": "me"}, ["me"]])
def test_malformed_managed_fields_are_rejected(record: object) -> None:
    with pytest.raises(BadRequest, match=r"metadata\.managedFields must be a list of objects"):
        stored(a_framework(managedFields=record))
