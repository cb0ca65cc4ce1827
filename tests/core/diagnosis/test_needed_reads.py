"""The last lines of a failure come from its log if the termination message is empty, and one log is read only."""

from dataclasses import replace

import pytest

from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.inputs import DiagnosisInput, DiagnosisScope, LogReference
from launcher.core.diagnosis.needed_reads import log_of_failure, objects_with_events, running_pods
from launcher.core.spec import RetryPolicy
from launcher.core.status import CompletedAttempt, State
from launcher.core.timestamps import format_rfc3339
from tests.core.diagnosis.situations import (
    BEGUN,
    NOW,
    UID,
    WORKER,
    a_failed_task,
    a_pod,
    a_retry,
    a_role,
    a_situation,
    a_status,
    a_task,
    an_exit,
    last_exit,
    unschedulable,
    waiting,
)

LOG = LogReference("mnist-worker-1", "uid-1", "main")


def failures(message: str = "") -> DiagnosisInput:
    """Task 1 failed first."""
    tasks = [
        a_failed_task(0, an_exit(1), BEGUN + 9, pod_uid="uid-0"),
        a_failed_task(1, an_exit(2, message=message), BEGUN + 1, pod_uid="uid-1"),
    ]
    return a_situation(a_status(tasks))


def restarted(state: str, message: str = "") -> DiagnosisInput:
    pod = waiting("CrashLoopBackOff", lastState=last_exit(3, message=message), restartCount=2)
    if state == "running":
        pod["status"]["phase"] = "Running"
        pod["status"]["containerStatuses"][0]["state"] = {"running": {}}
    return a_situation(a_status([a_task()]), pod)


@pytest.mark.parametrize(
    ("source", "log"),
    [
        pytest.param(failures(), LOG, id="the first failure"),
        pytest.param(failures("KeyError"), None, id="a termination message"),
        pytest.param(a_situation(None), None, id="no status"),
        pytest.param(a_situation(a_status([a_task(0, State.RUNNING)])), None, id="no failure"),
        pytest.param(
            a_situation(
                a_status([a_task(0, State.ATTEMPT_COMPLETED, completion=an_exit(1), pod_uid="uid-0")])
            ),
            LogReference("mnist-worker-0", "uid-0", "main"),
            id="a task that is retried",
        ),
        pytest.param(
            restarted("waiting"),
            LogReference("mnist-worker-0", "uid-worker-0", "main"),
            id="a container that waits for its restart",
        ),
        pytest.param(
            restarted("running"),
            LogReference("mnist-worker-0", "uid-worker-0", "main", previous=True),
            id="a container that runs again",
        ),
        pytest.param(restarted("waiting", "no data"), None, id="a restart with a termination message"),
    ],
)
def test_one_log_is_needed_at_most(source: DiagnosisInput, log: LogReference | None) -> None:
    assert log_of_failure(source) == log


def test_a_selected_task_is_read_instead_of_the_first_failure() -> None:
    found = log_of_failure(failures(), DiagnosisScope("worker", 0))

    assert found == LogReference("mnist-worker-0", "uid-0", "main")
    assert log_of_failure(failures(), DiagnosisScope("ps")) is None


def test_the_last_lines_of_a_log_are_shown_with_the_failure() -> None:
    lines = {("mnist-worker-1", "main"): "step 1\nstep 2\nCUDA error: no device\n"}

    first, *_ = diagnose(replace(failures(), last_lines=lines))

    assert first.summary == "worker-1: container main exited with code 2; last line: CUDA error: no device"
    (log,) = [each for each in first.evidence if each.field == "log[main]"]
    assert log.value == "step 1\nstep 2\nCUDA error: no device"


def test_a_log_can_name_the_cause() -> None:
    lines = {("mnist-worker-1", "main"): "OSError: [Errno 28] No space left on device\n"}

    assert diagnose(replace(failures(), last_lines=lines))[0].cause.id == "FL-RUN-13"


def test_the_last_line_of_a_restarted_container_is_shown() -> None:
    lines = {("mnist-worker-0", "main"): "no data\n"}

    (finding,) = diagnose(replace(restarted("running"), last_lines=lines))

    assert finding.summary.endswith("failed 2 times and is restarted: exit code 3; last line: no data")


def test_running_pods_of_the_selected_tasks_are_checked_for_output() -> None:
    state = {"running": {"startedAt": format_rfc3339(BEGUN)}}
    containers = [{"name": "main", "ready": True, "state": state}]
    pods = [a_pod(index, phase="Running", containerStatuses=containers) for index in range(3)]
    source = a_situation(a_status([a_task(index, State.RUNNING) for index in range(3)]), *pods)

    (selected,) = running_pods(source, DiagnosisScope("worker", 1), limit=5)

    assert (selected.name, list(selected.containers), selected.started) == ("mnist-worker-1", ["main"], BEGUN)
    assert len(running_pods(source, None, limit=2)) == 2


def test_a_pod_that_wrote_some_minutes_ago_is_not_silent() -> None:
    pod = a_pod(
        0, phase="Running", containerStatuses=[{"name": "main", "ready": True, "state": {"running": {}}}]
    )
    source = a_situation(a_status([a_task(0, State.RUNNING)]), pod)

    assert diagnose(replace(source, last_output={"mnist-worker-0": NOW - 1700})) == ()


def test_the_events_of_the_first_pod_in_each_state_are_needed() -> None:
    ready = {"name": "main", "ready": True, "state": {"running": {}}}
    unready = {**ready, "ready": False}
    pods = [
        a_pod(0, phase="Running", containerStatuses=[ready]),
        waiting("ContainerCreating", index=10),
        waiting("ContainerCreating", index=2),
        waiting("ErrImagePull", index=3),
        a_pod(4, phase="Running", containerStatuses=[unready]),
        a_pod(5, phase="Failed", containerStatuses=[unready]),
        unschedulable("0/1 nodes are available", index=6),
    ]
    source = a_situation(a_status([a_task(index) for index in range(11)]), *pods)

    assert objects_with_events(source) == [UID, "uid-worker-2", "uid-worker-3", "uid-worker-4"]
    assert objects_with_events(source, DiagnosisScope("worker", 3)) == [UID, "uid-worker-3"]


def an_attempt(number: int, *, counted: bool) -> CompletedAttempt:
    return CompletedAttempt(
        number,
        BEGUN,
        BEGUN + 5,
        137 if counted else -1000,
        "phrase",
        "container main was killed by SIGKILL (exit code 137)" if counted else "the node evicted the pod",
        counted=counted,
        retry_reason="attempt",
        uncounted_reason="" if counted else "transient failure",
    )


def test_a_task_without_retries_left_lists_its_attempts() -> None:
    history = (an_attempt(0, counted=False), an_attempt(1, counted=True))
    task = replace(
        a_failed_task(0, an_exit(137), retry=a_retry(total=2, accountable=1)),
        history=history,
    )
    role = a_role(WORKER, 1, retry=RetryPolicy(max_retries=1))

    first, second = diagnose(a_situation(a_status([task]), roles=[role]))

    assert (first.cause.id, second.cause.id) == ("FL-RUN-09", "FL-RETRY-03")
    assert second.summary == "worker-0: attempt 3 was its last: 1 of 1 retries used, 1 not counted"
    assert second.next_step.startswith("launcher attempts mnist worker/0; raise ")
    assert [each.value for each in second.evidence] == [
        "the node evicted the pod; not counted: transient failure",
        "container main was killed by SIGKILL (exit code 137); counted",
    ]
    assert second.evidence[0].field.endswith("taskStatuses[0].attemptHistory[0]")
