"""Who is there, who is missing, and who is told of whom."""

from typing import Any

import pytest

from launcher.core.spec import RoleName
from launcher.rendezvous.peer_tracker import (
    PORT,
    DependentRoles,
    PeerTracker,
    RendezvousTarget,
    earlier_than,
    later_than,
    seen_from_json,
    wanted_from_json,
)
from launcher.store.interface import Object
from tests.core.manifests import a_pod, a_role
from tests.rendezvous.world import PS, WORKER, a_stored_framework, a_task_pod, seen, spec_of, wanted

NOBODY: DependentRoles = frozenset()
TWO_ROLES = (a_role("worker", 2), a_role("ps", 1))


def attendance(framework: Object, **status: Any) -> PeerTracker:
    """Somebody who knows that Framework, in that state."""
    attempt = {"id": status.pop("attempt", 0), "rescaleCount": status.pop("rescales", 0)}
    there = PeerTracker()
    there.expect(wanted_from_json({**framework, "status": {"attemptStatus": attempt, **status}}))
    return there


def generation(there: PeerTracker) -> int:
    roster = there.roster(NOBODY)
    assert roster is not None
    return roster.generation


def test_nothing_is_told_before_every_task_has_its_address() -> None:
    framework = a_stored_framework(*TWO_ROLES)
    there = attendance(framework)

    for task in ("worker/0", "ps/0"):
        there.see(seen(framework, task, "10.0.0.1"))
    there.see(seen(framework, "worker/1"))

    assert there.roster(NOBODY) is None
    assert list(there.missing(NOBODY)) == [(WORKER, 1)]


def test_then_everybody_is_told_where_everybody_is() -> None:
    framework = a_stored_framework(*TWO_ROLES)
    there = attendance(framework)

    for number, task in enumerate(("worker/1", "ps/0", "worker/0")):
        there.see(seen(framework, task, f"10.0.0.{number}"))
    roster = there.roster(NOBODY)

    assert roster is not None
    assert {role: [peer.ip for peer in peers] for role, peers in roster.roles.items()} == {
        "worker": ["10.0.0.2", "10.0.0.0"],
        "ps": ["10.0.0.1"],
    }
    assert (roster.framework, roster.attempt, roster.generation) == ("mnist", 0, 1)
    assert list(there.missing(NOBODY)) == []


@pytest.mark.parametrize(
    ("which", "why"),
    [
        pytest.param({"attempt": 1}, "of another attempt", id="another attempt"),
        pytest.param({"task_attempt": 0, "uid": "another"}, "of another Framework", id="another Framework"),
    ],
)
def test_pods_that_are_not_of_this_attempt_do_not_count(which: dict[str, Any], why: str) -> None:
    framework = a_stored_framework(a_role(tasks=1))
    there = attendance(framework)
    uid = which.pop("uid", framework["metadata"]["uid"])

    there.see(seen(a_stored_framework(a_role(tasks=1), uid=uid), "worker/0", "10.0.0.1", **which))

    assert there.roster(NOBODY) is None, why


def test_a_pod_that_is_about_to_go_does_not_count() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    there = attendance(framework)
    there.see(seen(framework, "worker/0", "10.0.0.1"))
    pod = a_task_pod(framework, "worker/0")
    pod["metadata"] |= {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}

    going = seen_from_json({**pod, "status": {"podIP": "10.0.0.1"}})
    assert going is not None
    there.see(going)

    assert there.roster(NOBODY) is None
    assert there.doubts(going)


def test_in_the_nodes_network_the_nodes_address_is_enough() -> None:
    framework = a_stored_framework(a_role(tasks=1, pod=a_pod(hostNetwork=True)))
    pod = a_task_pod(framework, "worker/0")
    pod["metadata"]["uid"] = "u"

    found = seen_from_json({**pod, "status": {"hostIP": "192.0.2.7"}})

    assert found is not None
    assert found.ip == "192.0.2.7"


def test_whoever_is_seen_again_as_before_changes_nothing() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    there = attendance(framework)

    assert there.see(seen(framework, "worker/0", "10.0.0.1"))
    assert not there.see(seen(framework, "worker/0", "10.0.0.1"))
    assert there.see(seen(framework, "worker/0", "10.0.0.2"))


def test_the_generation_grows_with_every_retry_and_every_rescale() -> None:
    framework = a_stored_framework(a_role(tasks=2))
    there = attendance(framework)
    told = []

    for task_attempt in range(3):
        for task in ("worker/0", "worker/1"):
            there.see(seen(framework, task, "10.0.0.1", task_attempt=task_attempt))
            if there.roster(NOBODY):
                told.append(generation(there))
    # Fewer tasks, and those that are left were never retried.
    smaller = a_stored_framework(a_role(tasks=1))
    there.expect(wanted_from_json({**smaller, "status": {"attemptStatus": {"id": 0, "rescaleCount": 1}}}))
    there.see(seen(smaller, "worker/0", "10.0.0.1"))
    told.append(generation(there))

    assert told == sorted(set(told))


def test_two_who_look_at_the_same_pods_tell_the_same() -> None:
    framework = a_stored_framework(a_role(tasks=3))
    pods = [seen(framework, f"worker/{n}", f"10.0.0.{n}", task_attempt=n) for n in range(3)]
    one, other = attendance(framework, rescales=2), attendance(framework, rescales=2)

    for pod in pods:
        one.see(pod)
    for pod in reversed(pods):
        other.see(pod)

    assert one.roster(NOBODY) == other.roster(NOBODY)


def test_a_port_that_is_found_by_the_task_has_to_be_told_first() -> None:
    framework = a_stored_framework(*TWO_ROLES, discovery={"ports": {"worker": "auto", "ps": 46867}})
    there = attendance(framework)
    for task in ("worker/0", "worker/1", "ps/0"):
        there.see(seen(framework, task, "10.0.0.1"))

    before = list(there.missing(NOBODY))
    for task, port in (("worker/0", 20001), ("worker/1", 20002)):
        there.see(seen(framework, task, "10.0.0.1", port=port))
    roster = there.roster(NOBODY)

    assert before == [(WORKER, 0), (WORKER, 1)]
    assert roster is not None
    assert [peer.port for peers in roster.roles.values() for peer in peers] == [20001, 20002, 46867]


@pytest.mark.parametrize("text", ["0", "65536", "-1", "http", "", "²", "9" * 400], ids=repr)
def test_what_is_no_port_is_not_taken_for_one(text: str) -> None:
    pod = a_task_pod(a_stored_framework(), "worker/0")
    pod["metadata"]["uid"] = "u"
    pod["metadata"]["annotations"][PORT] = text

    found = seen_from_json(pod)

    assert found is not None
    assert found.told is None


def test_tasks_beyond_the_number_that_is_known_make_one_look_again() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    there = attendance(framework)
    more = a_stored_framework(a_role(tasks=2))

    assert there.doubts(seen(more, "worker/1"))
    assert not there.doubts(seen(more, "worker/0"))


def test_a_newer_attempt_makes_one_look_again_and_an_older_one_does_not() -> None:
    framework = a_stored_framework(a_role(tasks=1))
    there = attendance(framework, attempt=1)

    assert there.doubts(seen(framework, "worker/0", attempt=2))
    assert not there.doubts(seen(framework, "worker/0", attempt=1))
    assert not there.doubts(seen(framework, "worker/0", attempt=0))


@pytest.mark.parametrize(
    ("status", "over"),
    [
        pytest.param({}, False, id="nothing is known yet"),
        pytest.param({"state": "AttemptRunning"}, False, id="it runs"),
        pytest.param({"state": "AttemptDeletionPending"}, True, id="it is about to end"),
        pytest.param({"state": "AttemptCompleted"}, True, id="it is over"),
        pytest.param({"state": "Completed"}, True, id="all of it is over"),
    ],
)
def test_an_attempt_is_over_when_it_ends(status: dict[str, Any], over: bool) -> None:
    assert wanted_from_json({**a_stored_framework(), "status": status}).over is over


def test_a_framework_that_is_being_deleted_is_over() -> None:
    framework = a_stored_framework()
    framework["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert wanted_from_json(framework).over


@pytest.mark.parametrize("spec", [None, {}, {"taskRoles": [{}]}, {"taskRoles": [{"name": "a", "task": 5}]}])
def test_what_cannot_be_read_is_said_in_one_way(spec: Any) -> None:
    try:
        found: RendezvousTarget | None = wanted_from_json({**a_stored_framework(), "spec": spec})
    except ValueError:
        found = None

    assert found is None or found.spec.roles == ()


CHAIN = (
    a_role("chief", 1, startAfter=[{"role": "ps"}]),
    a_role("ps", 1),
    a_role("worker", 1, startAfter=[{"role": "chief", "condition": "Ready"}]),
    a_role("board", 1, background=True),
)


@pytest.mark.parametrize(
    ("role", "later"),
    [
        pytest.param("ps", {"chief", "worker"}, id="those who wait for it, and those who wait for them"),
        pytest.param("chief", {"worker"}, id="those who wait for it"),
        pytest.param("worker", set(), id="nobody waits for the last"),
        pytest.param(None, set(), id="nor for nobody"),
    ],
)
def test_nobody_is_told_of_those_who_start_after_him(role: str | None, later: set[str]) -> None:
    assert later_than(spec_of(*CHAIN), None if role is None else RoleName(role)) == later


def test_so_the_first_is_answered_while_the_later_ones_are_not_even_there() -> None:
    roles = (a_role("ps", 1), a_role("worker", 1, startAfter=[{"role": "ps"}]))
    framework = a_stored_framework(*roles)
    there = attendance(framework)
    there.see(seen(framework, "ps/0", "10.0.0.1"))

    first = there.roster(later_than(wanted(*roles).spec, PS))

    assert first is not None
    assert (list(first.roles), first.later) == ([PS], (WORKER,))
    assert there.roster(NOBODY) is None


@pytest.mark.parametrize(
    ("role", "earlier"),
    [
        pytest.param("ps", (), id="the first waits for nobody"),
        pytest.param("chief", ("ps",), id="one that starts after another waits for that"),
        pytest.param("worker", ("ps", "chief"), id="the last waits for all"),
        pytest.param("board", ("ps", "chief", "worker"), id="what runs in the background is not waited for"),
    ],
)
def test_ports_are_waited_for_in_one_order(role: str, earlier: tuple[str, ...]) -> None:
    assert earlier_than(spec_of(*CHAIN), RoleName(role)) == earlier


def test_that_order_is_the_one_of_creation_if_there_is_one() -> None:
    spec = spec_of(*TWO_ROLES, roleSequence=["ps", "worker"])

    assert (earlier_than(spec, PS), earlier_than(spec, WORKER)) == ((), (PS,))
    assert earlier_than(spec_of(*TWO_ROLES), PS) == (WORKER,)


def test_nobody_waits_in_a_circle_whatever_starts_after_what() -> None:
    roles = (
        a_role("a", 1, startAfter=[{"role": "c"}]),
        a_role("b", 1),
        a_role("c", 1),
    )
    spec = spec_of(*roles)

    found = {role: earlier_than(spec, RoleName(role)) for role in "abc"}

    assert found == {"b": (), "c": ("b",), "a": ("b", "c")}
