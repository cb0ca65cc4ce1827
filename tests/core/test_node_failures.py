"""The failed attempts of tasks in a status, by node."""

from dataclasses import replace

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.node_failures import MAX_REASON, NodeFailure, node_failures
from launcher.core.status import CompletedAttempt, State, TaskAttempt, TaskStatus
from tests.core.builders import START
from tests.core.statuses import W, a_failure, a_status, stored_json


def a_task(**members: object) -> TaskStatus:
    attempt = TaskAttempt(START, run_time=START, pod_uid="uid", node="gpu-1")
    return replace(TaskStatus(0, START, START, attempt, State.RUNNING), **members)  # type: ignore[arg-type]  # by name


def failures(task: TaskStatus) -> list[NodeFailure]:
    return list(node_failures(stored_json(a_status([task]))["attemptStatus"]))


def test_a_running_task_has_not_failed() -> None:
    assert failures(a_task()) == []


def test_an_attempt_that_failed_is_a_failure_of_its_node() -> None:
    attempt = replace(a_task().attempt, completion_time=START + 5, completion=a_failure(7, "no dataset"))
    (failure,) = failures(a_task(attempt=attempt, state=State.COMPLETED))

    assert (failure.node, failure.completion_time, failure.role, failure.index) == ("gpu-1", START + 5, W, 0)
    assert failure.exit_code == 7
    assert "no dataset" in failure.reason


def test_attempts_that_were_retried_are_failures_too() -> None:
    earlier = CompletedAttempt(
        0, START, START + 3, 137, "OOM", "x" * 1000, True, "counted", node="gpu-2", exit_code=137
    )

    (failure,) = failures(a_task(history=(earlier,)))

    assert failure == NodeFailure("gpu-2", START + 3, W, 0, 137, "x" * MAX_REASON)


def test_a_task_that_ended_with_its_framework_has_not_failed() -> None:
    end = completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, "ended")
    attempt = replace(a_task().attempt, completion_time=START + 5, completion=end)

    assert failures(a_task(attempt=attempt, state=State.COMPLETED)) == []


@pytest.mark.parametrize(
    "attempt",
    [
        {},
        {"taskRoleStatuses": "none"},
        {"taskRoleStatuses": [{"name": "w", "taskStatuses": [{"attemptHistory": [{"completionTime": 3}]}]}]},
        {"taskRoleStatuses": [{"taskStatuses": [None, {"attemptStatus": []}]}]},
    ],
)
def test_a_status_of_another_program_has_no_failures(attempt: dict[str, object]) -> None:
    assert list(node_failures(attempt)) == []
