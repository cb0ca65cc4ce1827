"""The pod status, as a kubelet reports it."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.node.container_runtime import ContainerRun, ExitStatus, RunId
from launcher.node.pods.container_state import (
    ContainerState,
    RunState,
    WaitingReason,
    restore_state,
)
from launcher.node.pods.pod_lifecycle import PodState
from launcher.node.pods.pod_spec import Container, containers_of, parse_run_id, run_id
from launcher.node.pods.pod_status import PodFailure, StatusInputs, pod_status, qos_class
from launcher.store.interface import Object
from tests.node.harness import a_container, a_pod

NOW = 1_767_225_600.0
IDS = ("docker://2561ac43", "busybox@sha256:12ab")
RUNNING = ContainerState(RunState(0, NOW, None, *IDS), started=True, ready=True)
UID = "11111111-2222-4333-8444-555555555555"


def inputs(pod: Object, states: dict[str, ContainerState], **more: Any) -> StatusInputs:
    pod["metadata"]["uid"] = UID
    containers = containers_of(pod)
    pod_state = PodState(containers, states, pod["spec"]["restartPolicy"])
    return StatusInputs(
        pod,
        pod_state,
        NOW,
        "127.0.0.2",
        "127.0.0.2",
        prepared=True,
        **more,
    )


def conditions(status: Object) -> dict[str, tuple[str, str, str]]:
    return {
        one["type"]: (one["status"], one.get("reason", ""), one.get("message", ""))
        for one in status["conditions"]
    }


def test_the_status_of_a_running_pod() -> None:
    status = pod_status(inputs(a_pod("p"), {"main": RUNNING}), NOW)

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
                "imageID": "busybox@sha256:12ab",
                "started": True,
                "containerID": "docker://2561ac43",
            }
        ],
        "qosClass": "BestEffort",
    }


def test_the_status_of_a_pod_before_its_start() -> None:
    pod = a_pod("p", initContainers=[a_container("init")])

    status = pod_status(inputs(pod, {"init": ContainerState(), "main": ContainerState()}), NOW)

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


def test_the_reason_before_the_start_without_init_containers_is_container_creating() -> None:
    status = pod_status(inputs(a_pod("p"), {"main": ContainerState()}), NOW)

    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "containerID" not in status["containerStatuses"][0]


def test_the_status_of_a_succeeded_pod() -> None:
    state = ContainerState(RunState(0, NOW, ExitStatus(0, "Completed", NOW + 60), *IDS))

    status = pod_status(inputs(a_pod("p"), {"main": state}, terminated=True), NOW + 60)

    assert status["phase"] == "Succeeded"
    assert status["containerStatuses"][0]["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:01:00Z",
        "containerID": "docker://2561ac43",
    }
    assert conditions(status)["Initialized"] == ("True", "PodCompleted", "")
    assert conditions(status)["Ready"] == ("False", "PodCompleted", "")


def test_an_evicted_pod_has_its_reason_before_its_containers_end() -> None:
    failure = PodFailure("Evicted", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi".')
    ended = ContainerState(RunState(0, NOW, ExitStatus(137, "Error", NOW)))

    before = pod_status(inputs(a_pod("p"), {"main": RUNNING}, failure=failure), NOW)
    after = pod_status(inputs(a_pod("p"), {"main": ended}, failure=failure, terminated=True), NOW)

    assert (before["phase"], before["reason"]) == ("Running", "Evicted")
    assert (after["phase"], after["message"]) == ("Failed", failure.message)
    assert conditions(after)["DisruptionTarget"][:2] == ("True", "TerminationByKubelet")


def test_a_pod_terminated_by_the_node_has_failed_whatever_its_exit_codes_are() -> None:
    ended = ContainerState(RunState(0, NOW, ExitStatus(0, "Completed", NOW)))

    status = pod_status(
        inputs(a_pod("p"), {"main": ended}, failure=PodFailure("DeadlineExceeded", ""), terminated=True), NOW
    )

    assert status["phase"] == "Failed"


@pytest.mark.parametrize(("pause", "written"), [(10.0, "10s"), (80.0, "1m20s"), (300.0, "5m0s")])
def test_a_container_in_backoff_has_the_delay_in_its_message(pause: float, written: str) -> None:
    state = ContainerState(
        RunState(2, NOW, ExitStatus(1, "Error", NOW, "gone wrong")),
        last_run=RunState(1, NOW, ExitStatus(9, "Error", NOW)),
    )

    status = pod_status(
        inputs(a_pod("p", restartPolicy="Always"), {"main": state}, backing_off={"main": pause}), NOW
    )

    container = status["containerStatuses"][0]
    assert container["state"]["waiting"]["message"] == (
        f"back-off {written} restarting failed container=main pod=p_default({UID})"
    )
    assert container["lastState"]["terminated"]["message"] == "gone wrong"
    assert container["restartCount"] == 2


def test_a_container_that_cannot_restart_has_a_waiting_reason_and_a_last_state() -> None:
    state = ContainerState(
        RunState(0, NOW, ExitStatus(1, "Error", NOW)),
        waiting=WaitingReason("CreateContainerConfigError", "no such key"),
    )

    status = pod_status(inputs(a_pod("p", restartPolicy="Always"), {"main": state}), NOW)

    container = status["containerStatuses"][0]
    assert container["state"] == {
        "waiting": {"reason": "CreateContainerConfigError", "message": "no such key"}
    }
    assert container["lastState"]["terminated"]["exitCode"] == 1


def test_transition_times_change_only_with_their_condition() -> None:
    pod = a_pod("p")
    pod["status"] = pod_status(inputs(pod, {"main": ContainerState()}), NOW)
    gate = {"type": "example.com/gate", "status": "True"}
    pod["status"]["conditions"].append(gate)

    status = pod_status(inputs(pod, {"main": RUNNING}), NOW + 9)

    times = {one["type"]: one.get("lastTransitionTime") for one in status["conditions"]}
    assert times["Initialized"] == "2026-01-01T00:00:00Z"
    assert times["Ready"] == "2026-01-01T00:00:09Z"
    assert gate in status["conditions"]


def test_the_status_does_not_depend_on_the_time() -> None:
    pod = a_pod("p")
    pod["status"] = pod_status(inputs(pod, {"main": RUNNING}), NOW)

    assert pod_status(inputs(pod, {"main": RUNNING}), NOW + 999) == pod["status"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([{}, {}], "BestEffort", id="no requests"),
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
def test_the_qos_class(resources: list[Object], expected: str) -> None:
    pod = a_pod("p", *[a_container(f"c{number}", resources=one) for number, one in enumerate(resources)])

    assert qos_class(pod) == expected


def test_run_ids_are_parsed_and_others_rejected() -> None:
    name = parse_run_id(run_id(UID, "main-1", 12))

    assert name is not None
    assert (name.uid, name.container, name.restart) == (UID, "main-1", 12)
    assert parse_run_id(RunId("something-else")) is None
    assert parse_run_id(RunId("a.b.c")) is None


def _restore(status: Object, runs: dict[int, ContainerRun]) -> ContainerState:
    container = containers_of(a_pod("p"))[0]
    return restore_state(container, status, runs.get, _exit_status, NOW + 99)


def _exit_status(container: Container, run: ContainerRun) -> ExitStatus:
    assert run.ended is not None
    return replace(run.ended, message="its termination message")


def a_run(restart: int, *, ended: int | None = None) -> ContainerRun:
    status = None if ended is None else ExitStatus.of_process(ended, NOW + 5)
    return ContainerRun(run_id(UID, "main", restart), NOW, status, 0, *IDS)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(ContainerState(), id="not begun"),
        pytest.param(RUNNING, id="running"),
        pytest.param(replace(RUNNING, ready=False), id="running, not ready"),
        pytest.param(
            ContainerState(RunState(0, NOW, ExitStatus(3, "Error", NOW + 7, "bye"), *IDS)), id="ended"
        ),
        pytest.param(
            ContainerState(RunState(0, None, ExitStatus(128, "StartError", NOW, "no"))), id="never started"
        ),
    ],
)
def test_a_state_is_restored_from_the_status(state: ContainerState) -> None:
    status = pod_status(inputs(a_pod("p"), {"main": state}, terminated=not state.running), NOW)
    runs = {0: a_run(0)} if state.running else {}

    assert _restore(status, runs) == state


def test_a_container_in_backoff_is_restored_with_its_run() -> None:
    ended = ContainerState(RunState(2, NOW, ExitStatus(1, "Error", NOW + 3)), consecutive_restarts=2)
    status = pod_status(
        inputs(a_pod("p", restartPolicy="Always"), {"main": ended}, backing_off={"main": 20.0}), NOW
    )

    assert _restore(status, {}) == ended


def test_a_run_that_is_missing_in_the_status_is_restored() -> None:
    ended = ContainerState(RunState(0, NOW, ExitStatus(1, "Error", NOW + 3)))
    status = pod_status(
        inputs(a_pod("p", restartPolicy="Always"), {"main": ended}, backing_off={"main": 0.0}), NOW
    )

    fresh = _restore({}, {0: a_run(0)})
    again = _restore(status, {1: a_run(1)})

    assert fresh.run == RunState(0, NOW, None, *IDS)
    assert again.run == RunState(1, NOW, None, *IDS)
    assert again.last_run == ended.run


def test_an_exit_that_is_missing_in_the_status_is_restored_with_its_message() -> None:
    status = pod_status(inputs(a_pod("p"), {"main": RUNNING}), NOW)

    state = _restore(status, {0: a_run(0, ended=4)})

    assert state.exit == ExitStatus(4, "Error", NOW + 5, "its termination message")
    assert not state.ready


def test_a_run_that_does_not_exist_has_status_unknown() -> None:
    status = pod_status(inputs(a_pod("p"), {"main": RUNNING}), NOW)

    state = _restore(status, {})

    assert state.exit is not None
    assert (state.exit.exit_code, state.exit.reason) == (137, "ContainerStatusUnknown")
