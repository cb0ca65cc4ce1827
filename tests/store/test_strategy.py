"""The rules that depend on time, which the contract cannot turn."""

import pytest

from launcher.core.errors import BadRequest
from launcher.store import strategy
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, Object, Propagation
from tests.store.builders import NOW, a_framework, a_pod, with_


def stored(obj: Object) -> Object:
    kind = PODS if obj["kind"] == "Pod" else FRAMEWORKS
    made = strategy.created(kind, obj, uid="u", now=NOW)
    made["metadata"]["resourceVersion"] = "1"
    return made


def test_times_are_whole_seconds_in_utc() -> None:
    assert strategy.timestamp(1_700_000_000.999) == "2023-11-14T22:13:20Z"
    assert stored(a_framework())["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"


def test_a_pod_ends_when_its_grace_is_over() -> None:
    going = strategy.deleted(PODS, stored(a_pod(nodeName="n")), DeleteOptions(grace=10), NOW + 100)

    assert going is not None
    assert going["metadata"]["deletionTimestamp"] == strategy.timestamp(NOW + 110)


def test_a_shortened_grace_counts_from_the_first_deletion() -> None:
    going = strategy.deleted(PODS, stored(a_pod(nodeName="n")), DeleteOptions(grace=30), NOW)
    assert going is not None

    sooner = strategy.deleted(PODS, going, DeleteOptions(grace=20), NOW + 15)

    assert sooner is not None
    assert sooner["metadata"]["deletionTimestamp"] == strategy.timestamp(NOW + 20)


def test_what_waits_for_a_finalizer_has_no_grace() -> None:
    going = strategy.deleted(
        FRAMEWORKS, stored(a_framework(finalizers=["x/y"])), DeleteOptions(grace=30), NOW + 5
    )

    assert going is not None
    assert going["metadata"]["deletionTimestamp"] == strategy.timestamp(NOW + 5)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    ("propagation", "held", "finalizers"),
    [
        (None, ["x/y", "orphan"], ["x/y", "orphan"]),
        (Propagation.BACKGROUND, ["x/y", "orphan"], ["x/y"]),
        (Propagation.FOREGROUND, ["x/y", "orphan"], ["x/y", "foregroundDeletion"]),
        (Propagation.ORPHAN, ["foregroundDeletion", "x/y"], ["x/y", "orphan"]),
    ],
)
def test_the_last_word_on_propagation_counts(
    propagation: Propagation | None, held: list[str], finalizers: list[str]
) -> None:
    going = strategy.deleted(
        FRAMEWORKS, stored(a_framework(finalizers=held)), DeleteOptions(propagation=propagation), NOW
    )

    assert going is not None
    assert going["metadata"]["finalizers"] == finalizers


def test_the_rules_never_touch_what_they_are_given() -> None:
    handed, before = a_framework(finalizers=["x/y"]), stored(a_framework(finalizers=["x/y"]))
    copies = repr(handed), repr(before)

    strategy.created(FRAMEWORKS, handed, uid="v", now=NOW)
    strategy.updated(FRAMEWORKS, before, strategy.normalized(FRAMEWORKS, {**before, "spec": {}}))
    strategy.deleted(FRAMEWORKS, before, DeleteOptions(propagation=Propagation.FOREGROUND), NOW)

    assert (repr(handed), repr(before)) == copies


def test_a_number_is_another_when_it_is_written_otherwise() -> None:
    before = stored(with_(a_framework(), spec={"a": 1}))

    wanted = strategy.normalized(FRAMEWORKS, with_(before, spec={"a": 1.0}))
    after = strategy.updated(FRAMEWORKS, before, wanted)

    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_a_grace_without_end_still_ends_at_some_date() -> None:
    pod = a_pod(nodeName="node", terminationGracePeriodSeconds=10**14)
    before = stored(pod)

    going = strategy.deleted(PODS, before, DeleteOptions(), NOW)

    assert going is not None
    assert going["metadata"]["deletionGracePeriodSeconds"] == 2**31 - 1


def test_only_frameworks_have_a_record_of_who_owns_their_fields() -> None:
    record = [{"manager": "me"}]

    assert stored(a_framework(managedFields=record))["metadata"]["managedFields"] == record
    assert (
        "managedFields"
        not in stored(
            with_(a_pod(), metadata={"name": "p", "namespace": "default", "managedFields": record})
        )["metadata"]
    )


@pytest.mark.parametrize("record", ["me", {"manager": "me"}, ["me"]])
def test_a_record_of_another_form_is_refused(record: object) -> None:
    with pytest.raises(BadRequest, match=r"metadata\.managedFields must be a list of objects"):
        stored(a_framework(managedFields=record))
