"""The progress of a job, derived from the status of its Framework."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.completion_codes import Code, Completion
from launcher.core.serialization.status_json import status_from_json
from launcher.core.spec import RoleName
from launcher.core.status import FrameworkStatus, RoleStatus, State, TaskStatus

#: Completion codes of tasks that were stopped with the attempt, or by a scale-down.
_STOPPED = frozenset({int(Code.FRAMEWORK_ATTEMPT_COMPLETION), int(Code.DELETE_TASK_REQUESTED)})


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Replicas of one type: running, succeeded and failed ones. Pending ones are not counted."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The result of the job, and the role that triggered it, if any."""

    succeeded: bool
    message: str
    role: RoleName | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job."""

    counts: Mapping[RoleName, ReplicaCounts]
    #: Number of replicas per role that failed and will be restarted.
    restarting: Mapping[RoleName, int]
    end: JobEnd | None = None


NO_PROGRESS = Progress({}, {})


def progress_of(framework: Mapping[str, Any]) -> Progress:
    """Parses the status of *framework*. Raises ValueError if it cannot be parsed."""
    status = status_from_json(framework.get("status") or {})
    if status is None:
        return NO_PROGRESS
    restarting = {role.name: sum(map(_is_restarting, role.tasks)) for role in status.roles}
    return Progress(
        {role.name: _count(role) for role in status.roles},
        {role: number for role, number in restarting.items() if number},
        _job_end(status),
    )


def _job_end(status: FrameworkStatus) -> JobEnd | None:
    """The result of the only attempt, as soon as it is known."""
    end, trigger = status.attempt.completion, status.attempt.trigger
    if end is None or end.code == Code.FRAMEWORK_EXTERNAL_DELETED:
        return None
    return JobEnd(end.succeeded, status.message, None if trigger is None else trigger.role)


def _count(role: RoleStatus) -> ReplicaCounts:
    tasks = [task for task in role.tasks if not task.deletion_pending]
    return ReplicaCounts(
        _number(tasks, _is_active), _number(tasks, _has_succeeded), _number(tasks, _has_failed)
    )


def _number(tasks: Iterable[TaskStatus], predicate: Callable[[TaskStatus], bool]) -> int:
    return sum(map(predicate, tasks))


def _is_active(task: TaskStatus) -> bool:
    end = task.attempt.completion
    if end is None:
        return task.state is State.RUNNING
    # It was running when the attempt completed.
    return end.code in _STOPPED and task.attempt.run_time is not None


def _has_succeeded(task: TaskStatus) -> bool:
    return task.succeeded


def _has_failed(task: TaskStatus) -> bool:
    """Whether its pod failed, or it completed as failed without a pod."""
    end = task.attempt.completion
    return _is_failure(end) and (task.state is State.COMPLETED or (end is not None and end.pod is not None))


def _is_restarting(task: TaskStatus) -> bool:
    if task.state is State.COMPLETED or task.deletion_pending:
        return False
    end = task.attempt.completion
    return _is_failure(end) or (end is None and task.retry.total > 0 and task.attempt.run_time is None)


def _is_failure(end: Completion | None) -> bool:
    return end is not None and end.failed and end.code not in _STOPPED
