"""Where no scheduler knows of gangs, their pods wait behind gates until all of them fit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.gangs import (
    BACKEND,
    PLACED,
    Ground,
    a_gang,
    a_hungry_pod,
    condition,
    ground,
    hindrances,
    names,
)
from tests.kubernetes.launcher import USER_AGENT, KubeLauncher
from tests.kubernetes.world import World


@pytest.fixture(scope="module")
def own(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("gates"), programs) as made:
        yield made


@pytest.fixture
def place(own: Ground) -> World:
    return own.world()


@pytest.fixture
def slot(place: World) -> str:
    """A resource that only the pods of this test ask for; no node has any yet."""
    return f"launcher.test/{place.namespace}"


@pytest.fixture
def launcher(own: Ground) -> Iterator[KubeLauncher]:
    launcher = own.launch()
    yield launcher
    launcher.end()


def test_a_gang_that_does_not_fit_waits_whole_and_runs_whole_once_room_comes(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    own.give("node-0", slot, 2)
    place.submit(a_gang(3, a_hungry_pod(slot)))

    told = place.until(lambda: place.events("GangWaits") or None, "it is told why")

    assert hindrances(place) == dict.fromkeys(names(3), "SchedulingGated")
    assert told == [
        "2 of 3 tasks fit now, 3 have to: pod mnist-worker-2: 0/2 nodes are available: "
        f"2 Insufficient {slot}."
    ]
    assert condition(place, PLACED)["status"] == "False"

    own.give("node-1", slot, 1)

    place.running(*names(3))
    assert {pod["metadata"]["labels"][BACKEND] for pod in place.pods().values()} == {"gates"}
    place.until(lambda: condition(place, PLACED).get("status") == "True" or None, "it is placed")
    assert condition(place, PLACED)["message"] == "all 3 tasks of the gang are placed by gates"
    assert place.events("GangAdmitted") == ["there is room for 3 tasks at once"]


def test_of_two_gangs_that_fit_alone_the_older_runs_and_the_other_follows_it(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    place.submit(a_gang(2, a_hungry_pod(slot), name="first"))
    place.until(lambda: place.events("GangWaits") or None, "the first waits")
    place.submit(a_gang(2, a_hungry_pod(slot), name="second"))
    place.until(lambda: len(place.events("GangWaits")) == 2 or None, "the second waits too")

    own.give("node-0", slot, 1)
    own.give("node-1", slot, 2)

    place.until(lambda: condition(place, PLACED, "first").get("status") == "True" or None, "the first runs")
    assert hindrances(place) == {
        **dict.fromkeys(names(2, "first"), ""),
        **dict.fromkeys(names(2, "second"), "SchedulingGated"),
    }

    for pod in names(2, "first"):
        place.end(pod, "succeeded")

    place.until(lambda: condition(place, PLACED, "second").get("status") == "True" or None, "the second runs")


def test_a_gang_waits_on_while_another_launcher_takes_over(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    place.submit(a_gang(2, a_hungry_pod(slot)))
    place.until(lambda: place.events("GangWaits") or None, "it waits")
    launcher.stop()
    own.give("node-0", slot, 2)

    launcher.start()

    place.running(*names(2))


def test_a_gang_of_which_some_were_let_through_when_the_launcher_ended_is_let_through_whole(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    own.give("node-0", slot, 1)
    place.submit(a_gang(2, a_hungry_pod(slot)))
    place.until(lambda: place.events("GangWaits") or None, "it waits")
    launcher.kill()
    _open(place, "mnist-worker-0")

    launcher.start()

    place.until(lambda: not _gated(place) or None, "no gate is left")
    own.give("node-1", slot, 1)
    place.running(*names(2))


def test_a_task_that_is_retried_waits_for_nobody(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    own.give("node-0", slot, 2)
    framework = a_gang(2, a_hungry_pod(slot))
    framework["spec"]["taskRoles"][0]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    place.submit(framework)
    place.running(*names(2))
    place.end("mnist-worker-0", "succeeded")
    failed = place.pods()["mnist-worker-1"]["metadata"]["uid"]

    place.end("mnist-worker-1", "failed")

    place.replaced("mnist-worker-1", failed)


def test_a_gang_that_waits_too_long_is_taken_back_and_tried_again_under_the_policy(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    own.give("node-0", slot, 1)
    gang = a_gang(2, a_hungry_pod(slot), gang={"timeoutSeconds": 2}, retryPolicy={"maxRetryCount": 1})
    place.submit(gang)

    status = place.completed()["status"]

    assert status["attemptStatus"]["completionStatus"]["phrase"] == "GangTimeout"
    assert "0 of 2 tasks placed" in status["attemptStatus"]["completionStatus"]["diagnostics"]
    assert status["retryPolicyStatus"]["totalRetriedCount"] == 1
    place.until(lambda: not place.pods() or None, "its pods are gone")


def test_enough_of_a_gang_go_first_and_the_rest_as_there_is_room(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    own.give("node-0", slot, 1)
    place.submit(a_gang(3, a_hungry_pod(slot), gang={"minTasks": 2}))
    place.until(lambda: place.events("GangWaits") or None, "it waits")
    place.until(lambda: len(_gated(place)) == 3 or None, "all wait")

    own.give("node-1", slot, 1)

    place.until(lambda: _running(place) == 2 or None, "two run")
    own.give("node-1", slot, 2)
    place.until(lambda: _running(place) == 3 or None, "all run")


def test_a_gang_that_is_made_smaller_while_it_waits_waits_for_fewer(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    own.give("node-0", slot, 2)
    place.submit(a_gang(3, a_hungry_pod(slot)))
    place.until(lambda: place.events("GangWaits") or None, "it waits")

    place.kubectl("scale", "framework", "mnist", "--replicas=2")

    place.running(*names(2))


def test_a_queue_is_refused_where_nothing_has_queues_and_nothing_is_created(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    place.submit(a_gang(1, a_hungry_pod(slot), gang={"queue": "research"}))

    told = place.until(lambda: place.events("FailedCreate") or None, "it is told")

    assert "localqueues.kueue.x-k8s.io and podgroups.scheduling.volcano.sh" in told[0]
    assert place.pods() == {}
    place.until(
        lambda: "spec.gang.queue" in condition(place, PLACED).get("message", "") or None, "status says it too"
    )


def test_nodes_are_watched_only_while_a_gang_waits(
    own: Ground, place: World, slot: str, launcher: KubeLauncher
) -> None:
    before = own.plane.audit.mark()
    place.submit(a_gang(1, a_hungry_pod(slot)))
    place.until(lambda: _asked_of_nodes(own, before) == ["list", "watch"] or None, "nodes are watched")
    waiting = own.plane.audit.mark()

    own.give("node-0", slot, 1)

    # A watch that is over is in the log once more.
    place.until(lambda: _asked_of_nodes(own, waiting) == ["watch"] or None, "nobody watches nodes any more")
    place.running("mnist-worker-0")


def _asked_of_nodes(own: Ground, mark: int) -> list[str]:
    asked = own.plane.audit.since(mark, user_agent=USER_AGENT)
    return [request.verb for request in asked if request.resource == "nodes"]


def _open(place: World, pod: str) -> None:
    """As the launcher does it."""
    place.kubectl("patch", "pod", pod, "--type=merge", '--patch={"spec":{"schedulingGates":null}}')


def _gated(place: World) -> list[str]:
    return [name for name, pod in place.pods().items() if pod["spec"].get("schedulingGates")]


def _running(place: World) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in place.pods().values())
