"""The progress of a Framework, as replica counts of a job."""

from dataclasses import replace

import pytest

from launcher.core.completion_codes import Code, Completion, ContainerTermination, PodDetail, completion_for
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import FrameworkName, RoleName
from launcher.core.status import (
    FrameworkAttempt,
    FrameworkStatus,
    RetryStatus,
    RoleStatus,
    State,
    TaskAttempt,
    TaskStatus,
    Trigger,
)
from launcher.job_kinds.job_progress import NO_PROGRESS, JobEnd, Progress, ReplicaCounts, progress_of

WORKER = RoleName("worker")
SUCCESS = completion_for(Code.SUCCEEDED, "")
FAILURE = Completion(1, "Some", True, pod=PodDetail(containers=(ContainerTermination("a", 1),)))
STOPPED = completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, "")
REMOVED = completion_for(Code.DELETE_TASK_REQUESTED, "")


def a_task(
    state: State,
    completion: Completion | None = None,
    *,
    ran: bool = True,
    removed: bool = False,
    retries: int = 0,
) -> TaskStatus:
    attempt = TaskAttempt(10, run_time=20 if ran else None, completion=completion)
    return TaskStatus(0, 10, 10, attempt, state, retry=RetryStatus(retries), deletion_pending=removed)


def progress(*tasks: TaskStatus, end: Completion | None = None, trigger: Trigger | None = None) -> Progress:
    role = RoleStatus(WORKER, tuple(replace(task, index=index) for index, task in enumerate(tasks)))
    attempt = FrameworkAttempt(0, 10, completion=end, trigger=trigger)
    status = FrameworkStatus(10, 10, attempt, (role,), message="message")
    return progress_of({"status": status_to_json(status, FrameworkName("a"), "uid")})


def test_a_framework_without_status_has_no_progress() -> None:
    assert progress_of({}) == NO_PROGRESS


@pytest.mark.parametrize(
    ("task", "count"),
    [
        pytest.param(a_task(State.CREATION_PENDING, ran=False), ReplicaCounts(), id="not created"),
        pytest.param(a_task(State.PREPARING, ran=False), ReplicaCounts(), id="pending"),
        pytest.param(a_task(State.RUNNING), ReplicaCounts(active=1), id="running"),
        pytest.param(a_task(State.COMPLETED, SUCCESS), ReplicaCounts(succeeded=1), id="succeeded"),
        pytest.param(a_task(State.COMPLETED, FAILURE), ReplicaCounts(failed=1), id="failed"),
        pytest.param(
            a_task(State.DELETION_PENDING, FAILURE), ReplicaCounts(failed=1), id="failed and retried"
        ),
        pytest.param(
            a_task(State.COMPLETED, completion_for(Code.POD_EXTERNAL_DELETED, "")),
            ReplicaCounts(failed=1),
            id="deleted and not retried",
        ),
        pytest.param(
            a_task(State.DELETING, completion_for(Code.POD_EXTERNAL_DELETED, "")),
            ReplicaCounts(),
            id="being deleted and retried",
        ),
        pytest.param(
            a_task(State.COMPLETED, STOPPED), ReplicaCounts(active=1), id="running when the attempt completed"
        ),
        pytest.param(
            a_task(State.COMPLETED, STOPPED, ran=False),
            ReplicaCounts(),
            id="pending when the attempt completed",
        ),
        pytest.param(a_task(State.DELETING, REMOVED, removed=True), ReplicaCounts(), id="scaled down"),
        pytest.param(
            a_task(State.COMPLETED, FAILURE, removed=True), ReplicaCounts(), id="failed and scaled down"
        ),
    ],
)
def test_the_count_of_a_replica(task: TaskStatus, count: ReplicaCounts) -> None:
    assert progress(task).counts == {WORKER: count}


@pytest.mark.parametrize(
    ("task", "restarts"),
    [
        pytest.param(a_task(State.DELETION_PENDING, FAILURE), True, id="it failed"),
        pytest.param(a_task(State.PREPARING, ran=False, retries=1), True, id="it does not run yet"),
        pytest.param(a_task(State.RUNNING, retries=1), False, id="it runs again"),
        pytest.param(a_task(State.PREPARING, ran=False), False, id="it has never run"),
        pytest.param(a_task(State.COMPLETED, FAILURE), False, id="it is not retried"),
        pytest.param(a_task(State.DELETING, STOPPED), False, id="the attempt has completed"),
        pytest.param(a_task(State.DELETING, REMOVED, removed=True, retries=1), False, id="it is scaled down"),
    ],
)
def test_a_replica_restarts_from_its_failure_until_it_runs_again(task: TaskStatus, restarts: bool) -> None:
    assert progress(task).restarting == ({WORKER: 1} if restarts else {})


@pytest.mark.parametrize(
    ("completion", "end"),
    [
        pytest.param(None, None, id="it runs"),
        pytest.param(SUCCESS, JobEnd(True, "message", WORKER), id="it succeeded"),
        pytest.param(FAILURE, JobEnd(False, "message", WORKER), id="it failed"),
        pytest.param(
            completion_for(Code.FRAMEWORK_EXTERNAL_DELETED, ""), None, id="the Framework is deleted"
        ),
    ],
)
def test_the_end_of_the_attempt_is_the_end_of_the_job(
    completion: Completion | None, end: JobEnd | None
) -> None:
    trigger = None if completion is None else Trigger("reason", WORKER, 0)

    assert progress(end=completion, trigger=trigger).end == end
