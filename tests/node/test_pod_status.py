"""What is known of a pod, as a kubelet would report it."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.node.container_runtime import ContainerRun, ExitStatus, RunId
from launcher.node.pods.container_state import (
    ContainerExit,
    ContainerState,
    RunState,
    WaitingReason,
    restore_state,
)
from launcher.node.pods.pod_lifecycle import PodState
from launcher.node.pods.pod_spec import Container, containers_of, run_id, run_name
from launcher.node.pods.pod_status import PodFailure, StatusInputs, qos_class, status_of
from launcher.store.interface import Object
from tests.node.world import a_container, a_pod

NOW = 1_767_225_600.0
RUNNING = ContainerState(RunState(0, NOW), started=True, ready=True)
UID = "11111111-2222-4333-8444-555555555555"


def known(pod: Object, records: dict[str, ContainerState], **more: Any) -> StatusInputs:
    pod["metadata"]["uid"] = UID
    containers = containers_of(pod)
    situation = PodState(containers, records, pod["spec"]["restartPolicy"])
    return StatusInputs(pod, situation, NOW, "127.0.0.2", prepared=True, **more)


def conditions(status: Object) -> dict[str, tuple[str, str, str]]:
    return {
        one["type"]: (one["status"], one.get("reason", ""), one.get("message", ""))
        for one in status["conditions"]
    }


def test_a_pod_that_runs() -> None:
    status = status_of(known(a_pod("p"), {"main": RUNNING}), NOW)

    assert status == {
        "phase": "Running",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind in (
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            )
        ],
        "hostIP": "127.0.0.2",
        "hostIPs": [{"ip": "127.0.0.2"}],
        "podIP": "127.0.0.2",
        "podIPs": [{"ip": "127.0.0.2"}],
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "busybox",
                "imageID": "",
                "started": True,
                "containerID": f"process://{UID}.main.0",
            }
        ],
        "qosClass": "BestEffort",
    }


def test_a_pod_that_has_not_begun() -> None:
    pod = a_pod("p", initContainers=[a_container("init")])

    status = status_of(known(pod, {"init": ContainerState(), "main": ContainerState()}), NOW)

    assert status["initContainerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(status)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [init]",
    )
    assert conditions(status)["Ready"] == (
        "False",
        "ContainersNotReady",
        "containers with unready status: [main]",
    )


def test_a_pod_without_init_containers_is_creating_its_containers() -> None:
    status = status_of(known(a_pod("p"), {"main": ContainerState()}), NOW)

    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "containerID" not in status["containerStatuses"][0]


def test_a_pod_that_is_done() -> None:
    record = ContainerState(RunState(0, NOW, ContainerExit(0, "Completed", NOW + 60)))

    status = status_of(known(a_pod("p"), {"main": record}, over=True), NOW + 60)

    assert status["phase"] == "Succeeded"
    assert status["containerStatuses"][0]["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:01:00Z",
        "containerID": f"process://{UID}.main.0",
    }
    assert conditions(status)["Initialized"] == ("True", "PodCompleted", "")
    assert conditions(status)["Ready"] == ("False", "PodCompleted", "")


def test_a_pod_that_was_evicted_says_so_from_the_first_moment() -> None:
    verdict = PodFailure("Evicted", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi".')
    ended = ContainerState(RunState(0, NOW, ContainerExit(137, "Error", NOW)))

    before = status_of(known(a_pod("p"), {"main": RUNNING}, verdict=verdict), NOW)
    after = status_of(known(a_pod("p"), {"main": ended}, verdict=verdict, over=True), NOW)

    assert (before["phase"], before["reason"]) == ("Running", "Evicted")
    assert (after["phase"], after["message"]) == ("Failed", verdict.message)
    assert conditions(after)["DisruptionTarget"][:2] == ("True", "TerminationByKubelet")


def test_a_pod_that_the_node_ended_has_failed_however_its_containers_took_it() -> None:
    ended = ContainerState(RunState(0, NOW, ContainerExit(0, "Completed", NOW)))

    status = status_of(
        known(a_pod("p"), {"main": ended}, verdict=PodFailure("DeadlineExceeded", ""), over=True), NOW
    )

    assert status["phase"] == "Failed"


@pytest.mark.parametrize(("pause", "written"), [(10.0, "10s"), (80.0, "1m20s"), (300.0, "5m0s")])
def test_a_container_that_pauses_says_for_how_long(pause: float, written: str) -> None:
    record = ContainerState(
        RunState(2, NOW, ContainerExit(1, "Error", NOW, "gone wrong")),
        last=RunState(1, NOW, ContainerExit(9, "Error", NOW)),
    )

    status = status_of(
        known(a_pod("p", restartPolicy="Always"), {"main": record}, pausing={"main": pause}), NOW
    )

    told = status["containerStatuses"][0]
    assert told["state"]["waiting"]["message"] == (
        f"back-off {written} restarting failed container=main pod=p_default({UID})"
    )
    assert told["lastState"]["terminated"]["message"] == "gone wrong"
    assert told["restartCount"] == 2


def test_a_container_that_cannot_start_again_says_why_and_how_it_ended_before() -> None:
    record = ContainerState(
        RunState(0, NOW, ContainerExit(1, "Error", NOW)),
        hindrance=WaitingReason("CreateContainerConfigError", "no such key"),
    )

    status = status_of(known(a_pod("p", restartPolicy="Always"), {"main": record}), NOW)

    told = status["containerStatuses"][0]
    assert told["state"] == {"waiting": {"reason": "CreateContainerConfigError", "message": "no such key"}}
    assert told["lastState"]["terminated"]["exitCode"] == 1


def test_times_of_conditions_change_only_with_them_and_those_of_others_stay() -> None:
    pod = a_pod("p")
    pod["status"] = status_of(known(pod, {"main": ContainerState()}), NOW)
    gate = {"type": "example.com/gate", "status": "True"}
    pod["status"]["conditions"].append(gate)

    status = status_of(known(pod, {"main": RUNNING}), NOW + 9)

    times = {one["type"]: one.get("lastTransitionTime") for one in status["conditions"]}
    assert times["Initialized"] == "2026-01-01T00:00:00Z"
    assert times["Ready"] == "2026-01-01T00:00:09Z"
    assert gate in status["conditions"]


def test_the_same_facts_later_are_the_same_status() -> None:
    pod = a_pod("p")
    pod["status"] = status_of(known(pod, {"main": RUNNING}), NOW)

    assert status_of(known(pod, {"main": RUNNING}), NOW + 999) == pod["status"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([{}, {}], "BestEffort", id="nothing is asked for"),
        pytest.param([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort", id="other resources do not count"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="a request alone"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed", id="limits of both"),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}],
            "Guaranteed",
            id="requests that equal their limits",
        ),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}],
            "Burstable",
            id="a request below its limit",
        ),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable", id="one container without"
        ),
    ],
)
def test_the_quality_of_service(resources: list[Object], expected: str) -> None:
    pod = a_pod("p", *[a_container(f"c{number}", resources=one) for number, one in enumerate(resources)])

    assert qos_class(pod) == expected


def test_runs_are_known_by_their_ids_and_others_are_nobodys() -> None:
    name = run_name(run_id(UID, "main-1", 12))

    assert name is not None
    assert (name.uid, name.container, name.restart) == (UID, "main-1", 12)
    assert run_name(RunId("something-else")) is None
    assert run_name(RunId("a.b.c")) is None


def _recalled(status: Object, runs: dict[int, ContainerRun]) -> ContainerState:
    container = containers_of(a_pod("p"))[0]
    return restore_state(container, status, runs.get, _ending, NOW + 99)


def _ending(container: Container, run: ContainerRun) -> ContainerExit:
    assert run.ended is not None
    return ContainerExit(run.ended.exit_code, "Error", run.ended.at, "its last words")


def a_run(restart: int, *, ended: int | None = None) -> ContainerRun:
    return ContainerRun(
        run_id(UID, "main", restart), NOW, None if ended is None else ExitStatus(ended, NOW + 5)
    )


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(ContainerState(), id="not begun"),
        pytest.param(RUNNING, id="running"),
        pytest.param(replace(RUNNING, ready=False), id="running, not ready"),
        pytest.param(ContainerState(RunState(0, NOW, ContainerExit(3, "Error", NOW + 7, "bye"))), id="ended"),
        pytest.param(
            ContainerState(RunState(0, None, ContainerExit(128, "StartError", NOW, "no"))), id="never started"
        ),
    ],
)
def test_what_was_written_down_is_read_back(record: ContainerState) -> None:
    status = status_of(known(a_pod("p"), {"main": record}, over=not record.running), NOW)
    runs = {0: a_run(0)} if record.running else {}

    assert _recalled(status, runs) == record


def test_a_container_that_paused_is_read_back_with_its_attempt() -> None:
    ended = ContainerState(RunState(2, NOW, ContainerExit(1, "Error", NOW + 3)), streak=2)
    status = status_of(
        known(a_pod("p", restartPolicy="Always"), {"main": ended}, pausing={"main": 20.0}), NOW
    )

    assert _recalled(status, {}) == ended


def test_a_run_that_the_status_does_not_know_of_is_taken_on() -> None:
    ended = ContainerState(RunState(0, NOW, ContainerExit(1, "Error", NOW + 3)))
    status = status_of(known(a_pod("p", restartPolicy="Always"), {"main": ended}, pausing={"main": 0.0}), NOW)

    fresh = _recalled({}, {0: a_run(0)})
    again = _recalled(status, {1: a_run(1)})

    assert fresh.attempt == RunState(0, NOW)
    assert again.attempt == RunState(1, NOW)
    assert again.last == ended.attempt


def test_an_end_that_the_status_does_not_know_of_is_told_with_its_last_words() -> None:
    status = status_of(known(a_pod("p"), {"main": RUNNING}), NOW)

    record = _recalled(status, {0: a_run(0, ended=4)})

    assert record.ended == ContainerExit(4, "Error", NOW + 5, "its last words")
    assert not record.ready


def test_a_run_that_nobody_knows_has_ended_unseen() -> None:
    status = status_of(known(a_pod("p"), {"main": RUNNING}), NOW)

    record = _recalled(status, {})

    assert record.ended is not None
    assert (record.ended.exit_code, record.ended.reason) == (137, "ContainerStatusUnknown")
