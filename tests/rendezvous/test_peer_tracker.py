"""Which tasks have addresses, which are missing, and which roles a task waits for."""

from typing import Any

import pytest

from launcher.core.spec import RoleName
from launcher.rendezvous.peer_tracker import (
    PORT_ANNOTATION,
    DependentRoles,
    PeerTracker,
    RendezvousTarget,
    dependent_roles,
    peer_pod_from_json,
    preceding_roles,
    target_from_json,
)
from launcher.store.interface import Object
from tests.builders import a_pod_template, a_role
from tests.rendezvous.harness import (
    PS,
    WORKER,
    a_peer_pod,
    a_stored_framework,
    a_target,
    a_task_pod,
    spec_of,
    task_id,
)

NO_ROLES: DependentRoles = frozenset()
TWO_ROLES = (a_role("worker", 2), a_role("ps", 1))


def a_tracker(framework: Object, *, attempt: int = 0, rescales: int = 0) -> PeerTracker:
    """A tracker of the Framework in that attempt."""
    status = {"attemptStatus": {"id": attempt, "rescaleCount": rescales}}
    tracker = PeerTracker()
    tracker.set_target(target_from_json({**framework, "status": status}))
    return tracker


def generation(tracker: PeerTracker) -> int:
    peer_list = tracker.peer_list(NO_ROLES)
    assert peer_list is not None
    return peer_list.generation


def test_there_is_no_peer_list_before_every_task_has_an_address() -> None:
    framework = a_stored_framework(*TWO_ROLES)
    tracker = a_tracker(framework)

    for task in ("worker/0", "ps/0"):
        tracker.upsert(a_peer_pod(framework, task, "10.0.0.1"))
    tracker.upsert(a_peer_pod(framework, "worker/1"))

    assert tracker.peer_list(NO_ROLES) is None
    assert list(tracker.missing(NO_ROLES)) == [task_id("worker/1")]


def test_the_peer_list_has_the_addresses_of_all_tasks_in_order() -> None:
    framework = a_stored_framework(*TWO_ROLES)
    tracker = a_tracker(framework)

    for number, task in enumerate(("worker/1", "ps/0", "worker/0")):
        tracker.upsert(a_peer_pod(framework, task, f"10.0.0.{number}"))
    peer_list = tracker.peer_list(NO_ROLES)

    assert peer_list is not None
    assert {role: [peer.ip for peer in peers] for role, peers in peer_list.roles.items()} == {
        "worker": ["10.0.0.2", "10.0.0.0"],
        "ps": ["10.0.0.1"],
    }
    assert (peer_list.framework, peer_list.attempt, peer_list.generation) == ("mnist", 0, 1)
    assert list(tracker.missing(NO_ROLES)) == []


def test_pods_of_another_attempt_are_ignored() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    tracker = a_tracker(framework)

    tracker.upsert(a_peer_pod(framework, "worker/0", "10.0.0.1", attempt=1))

    assert tracker.peer_list(NO_ROLES) is None


def test_pods_of_another_framework_are_ignored() -> None:
    tracker = a_tracker(a_stored_framework(a_role(tasks=1)))
    other = a_stored_framework(a_role(tasks=1), uid="another")

    tracker.upsert(a_peer_pod(other, "worker/0", "10.0.0.1"))

    assert tracker.peer_list(NO_ROLES) is None


def test_a_pod_that_is_being_deleted_is_ignored() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    tracker = a_tracker(framework)
    tracker.upsert(a_peer_pod(framework, "worker/0", "10.0.0.1"))
    pod = a_task_pod(framework, "worker/0")
    pod["metadata"] |= {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}

    deleting = peer_pod_from_json({**pod, "status": {"podIP": "10.0.0.1"}})
    assert deleting is not None
    tracker.upsert(deleting)

    assert tracker.peer_list(NO_ROLES) is None
    assert tracker.contradicts_target(deleting)


def test_with_host_network_a_pod_has_the_address_of_its_node() -> None:
    framework = a_stored_framework(a_role(tasks=1, pod=a_pod_template(hostNetwork=True)))
    obj = a_task_pod(framework, "worker/0")
    obj["metadata"]["uid"] = "u"

    pod = peer_pod_from_json({**obj, "status": {"hostIP": "192.0.2.7"}})

    assert pod is not None
    assert pod.ip == "192.0.2.7"


def test_an_unchanged_pod_is_not_reported_as_changed() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    tracker = a_tracker(framework)

    assert tracker.upsert(a_peer_pod(framework, "worker/0", "10.0.0.1"))
    assert not tracker.upsert(a_peer_pod(framework, "worker/0", "10.0.0.1"))
    assert tracker.upsert(a_peer_pod(framework, "worker/0", "10.0.0.2"))


def test_the_generation_increases_with_every_retry_and_every_rescale() -> None:
    framework = a_stored_framework(a_role(tasks=2))
    tracker = a_tracker(framework)
    generations = []

    for task_attempt in range(3):
        for task in ("worker/0", "worker/1"):
            tracker.upsert(a_peer_pod(framework, task, "10.0.0.1", task_attempt=task_attempt))
            if tracker.peer_list(NO_ROLES):
                generations.append(generation(tracker))
    # After the rescale there are fewer tasks, and they were never retried.
    smaller = a_stored_framework(a_role(tasks=1))
    status = {"attemptStatus": {"id": 0, "rescaleCount": 1}}
    tracker.set_target(target_from_json({**smaller, "status": status}))
    tracker.upsert(a_peer_pod(smaller, "worker/0", "10.0.0.1"))
    generations.append(generation(tracker))

    assert generations == sorted(set(generations))


def test_two_replicas_have_the_same_peer_list() -> None:
    framework = a_stored_framework(a_role(tasks=3))
    pods = [a_peer_pod(framework, f"worker/{n}", f"10.0.0.{n}", task_attempt=n) for n in range(3)]
    first, second = a_tracker(framework, rescales=2), a_tracker(framework, rescales=2)

    for pod in pods:
        first.upsert(pod)
    for pod in reversed(pods):
        second.upsert(pod)

    assert first.peer_list(NO_ROLES) == second.peer_list(NO_ROLES)


def test_a_task_with_an_auto_port_is_missing_until_its_port_is_reserved() -> None:
    framework = a_stored_framework(*TWO_ROLES, discovery={"ports": {"worker": "auto", "ps": 46867}})
    tracker = a_tracker(framework)
    for task in ("worker/0", "worker/1", "ps/0"):
        tracker.upsert(a_peer_pod(framework, task, "10.0.0.1"))

    missing = list(tracker.missing(NO_ROLES))
    for task, port in (("worker/0", 20001), ("worker/1", 20002)):
        tracker.upsert(a_peer_pod(framework, task, "10.0.0.1", port=port))
    peer_list = tracker.peer_list(NO_ROLES)

    assert missing == [task_id("worker/0"), task_id("worker/1")]
    assert peer_list is not None
    assert [peer.port for peers in peer_list.roles.values() for peer in peers] == [20001, 20002, 46867]


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "", "²", "9" * 400], ids=repr)
def test_an_invalid_port_annotation_is_ignored(text: str) -> None:
    obj = a_task_pod(a_stored_framework(), "worker/0")
    obj["metadata"]["uid"] = "u"
    obj["metadata"]["annotations"][PORT_ANNOTATION] = text

    pod = peer_pod_from_json(obj)

    assert pod is not None
    assert pod.port is None


def test_a_task_beyond_the_known_number_contradicts_the_target() -> None:
    tracker = a_tracker(a_stored_framework(a_role(tasks=1)))
    larger = a_stored_framework(a_role(tasks=2))

    assert tracker.contradicts_target(a_peer_pod(larger, "worker/1"))
    assert not tracker.contradicts_target(a_peer_pod(larger, "worker/0"))


def test_a_newer_attempt_contradicts_the_target_and_an_older_one_does_not() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    tracker = a_tracker(framework, attempt=1)

    assert tracker.contradicts_target(a_peer_pod(framework, "worker/0", attempt=2))
    assert not tracker.contradicts_target(a_peer_pod(framework, "worker/0", attempt=1))
    assert not tracker.contradicts_target(a_peer_pod(framework, "worker/0", attempt=0))


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        pytest.param({}, False, id="no status yet"),
        pytest.param({"state": "AttemptRunning"}, False, id="running"),
        pytest.param({"state": "AttemptDeletionPending"}, True, id="deletion pending"),
        pytest.param({"state": "AttemptCompleted"}, True, id="attempt completed"),
        pytest.param({"state": "Completed"}, True, id="completed"),
    ],
)
def test_an_attempt_has_ended_from_its_deletion_on(status: dict[str, Any], ended: bool) -> None:
    assert target_from_json({**a_stored_framework(), "status": status}).ended is ended


def test_the_attempt_of_a_framework_that_is_being_deleted_has_ended() -> None:
    framework = a_stored_framework()
    framework["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert target_from_json(framework).ended


@pytest.mark.parametrize("spec", [None, {}, {"taskRoles": [{}]}, {"taskRoles": [{"name": "a", "task": 5}]}])
def test_parsing_an_invalid_spec_raises_only_value_errors(spec: Any) -> None:
    try:
        target: RendezvousTarget | None = target_from_json({**a_stored_framework(), "spec": spec})
    except ValueError:
        target = None

    assert target is None or target.spec.roles == ()


CHAIN = (
    a_role("chief", 1, startAfter=[{"role": "ps"}]),
    a_role("ps", 1),
    a_role("worker", 1, startAfter=[{"role": "chief", "condition": "Ready"}]),
    a_role("board", 1, background=True),
)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        pytest.param("ps", {"chief", "worker"}, id="direct and indirect"),
        pytest.param("chief", {"worker"}, id="direct"),
        pytest.param("worker", set(), id="the last role"),
        pytest.param(None, set(), id="no role"),
    ],
)
def test_dependent_roles_start_after_the_role(role: str | None, expected: set[str]) -> None:
    assert dependent_roles(spec_of(*CHAIN), None if role is None else RoleName(role)) == expected


def test_the_peer_list_of_a_task_is_complete_without_its_dependent_roles() -> None:
    roles = (a_role("ps", 1), a_role("worker", 1, startAfter=[{"role": "ps"}]))
    framework = a_stored_framework(*roles)
    tracker = a_tracker(framework)
    tracker.upsert(a_peer_pod(framework, "ps/0", "10.0.0.1"))

    peer_list = tracker.peer_list(dependent_roles(a_target(*roles).spec, PS))

    assert peer_list is not None
    assert (list(peer_list.roles), peer_list.dependent_roles) == ([PS], (WORKER,))
    assert tracker.peer_list(NO_ROLES) is None


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        pytest.param("ps", (), id="the first role"),
        pytest.param("chief", ("ps",), id="the role it starts after"),
        pytest.param("worker", ("ps", "chief"), id="the last role"),
        pytest.param("board", ("ps", "chief", "worker"), id="background roles are left out"),
    ],
)
def test_preceding_roles_are_created_before_the_role(role: str, expected: tuple[str, ...]) -> None:
    assert preceding_roles(spec_of(*CHAIN), RoleName(role)) == expected


def test_preceding_roles_follow_the_role_sequence() -> None:
    spec = spec_of(*TWO_ROLES, roleSequence=["ps", "worker"])

    assert (preceding_roles(spec, PS), preceding_roles(spec, WORKER)) == ((), (PS,))
    assert preceding_roles(spec_of(*TWO_ROLES), PS) == (WORKER,)


def test_no_two_roles_precede_each_other() -> None:
    roles = (
        a_role("a", 1, startAfter=[{"role": "c"}]),
        a_role("b", 1),
        a_role("c", 1),
    )
    spec = spec_of(*roles)

    preceding = {role: preceding_roles(spec, RoleName(role)) for role in "abc"}

    assert preceding == {"b": (), "c": ("b",), "a": ("b", "c")}
