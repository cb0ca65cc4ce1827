"""How far a Framework has come, counted as a job counts its replicas."""

from dataclasses import replace

import pytest

from launcher.core.completion_codes import Code, Completion, ContainerDetail, PodDetail, completion_for
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
from launcher.job_kinds.job_progress import NOTHING_YET, JobEnd, Progress, ReplicaCounts, progress_of

WORKER = RoleName("worker")
SUCCESS = completion_for(Code.SUCCEEDED, "")
FAILURE = Completion(1, "Some", True, pod=PodDetail(containers=(ContainerDetail("a", 1),)))
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
    status = FrameworkStatus(10, 10, attempt, (role,), message="so it is")
    return progress_of({"status": status_to_json(status, FrameworkName("a"), "uid")})


def test_of_a_framework_that_nobody_has_looked_at_nothing_is_known() -> None:
    assert progress_of({}) == NOTHING_YET


@pytest.mark.parametrize(
    ("task", "count"),
    [
        pytest.param(a_task(State.CREATION_PENDING, ran=False), ReplicaCounts(), id="not created"),
        pytest.param(a_task(State.PREPARING, ran=False), ReplicaCounts(), id="pending"),
        pytest.param(a_task(State.RUNNING), ReplicaCounts(active=1), id="running"),
        pytest.param(a_task(State.COMPLETED, SUCCESS), ReplicaCounts(succeeded=1), id="succeeded"),
        pytest.param(a_task(State.COMPLETED, FAILURE), ReplicaCounts(failed=1), id="failed"),
        pytest.param(
            a_task(State.DELETION_PENDING, FAILURE), ReplicaCounts(failed=1), id="failed, and tried again"
        ),
        pytest.param(
            a_task(State.COMPLETED, completion_for(Code.POD_EXTERNAL_DELETED, "")),
            ReplicaCounts(failed=1),
            id="deleted, and not tried again",
        ),
        pytest.param(
            a_task(State.DELETING, completion_for(Code.POD_EXTERNAL_DELETED, "")),
            ReplicaCounts(),
            id="being deleted, and tried again",
        ),
        pytest.param(
            a_task(State.COMPLETED, STOPPED), ReplicaCounts(active=1), id="running when the whole ended"
        ),
        pytest.param(
            a_task(State.COMPLETED, STOPPED, ran=False), ReplicaCounts(), id="pending when the whole ended"
        ),
        pytest.param(a_task(State.DELETING, REMOVED, removed=True), ReplicaCounts(), id="scaled away"),
        pytest.param(
            a_task(State.COMPLETED, FAILURE, removed=True), ReplicaCounts(), id="failed, and scaled away"
        ),
    ],
)
def test_each_replica_is_counted_once_or_not_at_all(task: TaskStatus, count: ReplicaCounts) -> None:
    assert progress(task).counts == {WORKER: count}


@pytest.mark.parametrize(
    ("task", "restarts"),
    [
        pytest.param(a_task(State.DELETION_PENDING, FAILURE), True, id="it failed"),
        pytest.param(a_task(State.PREPARING, ran=False, retries=1), True, id="it does not run again yet"),
        pytest.param(a_task(State.RUNNING, retries=1), False, id="it runs again"),
        pytest.param(a_task(State.PREPARING, ran=False), False, id="it has never run"),
        pytest.param(a_task(State.COMPLETED, FAILURE), False, id="it is not tried again"),
        pytest.param(a_task(State.DELETING, STOPPED), False, id="the whole has ended"),
        pytest.param(a_task(State.DELETING, REMOVED, removed=True, retries=1), False, id="it is scaled away"),
    ],
)
def test_a_replica_restarts_from_its_failure_until_it_runs_again(task: TaskStatus, restarts: bool) -> None:
    assert progress(task).restarting == ({WORKER: 1} if restarts else {})


@pytest.mark.parametrize(
    ("completion", "end"),
    [
        pytest.param(None, None, id="it goes on"),
        pytest.param(SUCCESS, JobEnd(True, "so it is", WORKER), id="it succeeded"),
        pytest.param(FAILURE, JobEnd(False, "so it is", WORKER), id="it failed"),
        pytest.param(
            completion_for(Code.FRAMEWORK_EXTERNAL_DELETED, ""), None, id="the Framework is deleted"
        ),
    ],
)
def test_the_end_of_the_attempt_is_the_end_of_the_job(
    completion: Completion | None, end: JobEnd | None
) -> None:
    trigger = None if completion is None else Trigger("why", WORKER, 0)

    assert progress(end=completion, trigger=trigger).end == end
