"""How far the Framework of a job has come, in the words of the job: how many replicas run, and how it all ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.completion_codes import Code, Completion
from launcher.core.serialization.status_json import status_from_json
from launcher.core.spec import RoleName
from launcher.core.status import FrameworkStatus, RoleStatus, State, TaskStatus

#: Ends that tasks have because the whole has ended, or because they are no longer wanted.
_NOT_ITS_OWN = frozenset({int(Code.FRAMEWORK_ATTEMPT_COMPLETION), int(Code.DELETE_TASK_REQUESTED)})


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """Replicas of one type: those that run, and those that ended by themselves. Others are only waited for."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How the whole ended, and which role decided it, if one did."""

    succeeded: bool
    message: str
    role: RoleName | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What has become of a job so far."""

    counts: Mapping[RoleName, ReplicaCounts]
    #: How many replicas of each role failed and do not run again yet, though they will.
    restarting: Mapping[RoleName, int]
    end: JobEnd | None = None


NOTHING_YET = Progress({}, {})


def progress_of(framework: Mapping[str, Any]) -> Progress:
    """What the status of *framework* tells. Raises ValueError when that is none of ours."""
    status = status_from_json(framework.get("status") or {})
    if status is None:
        return NOTHING_YET
    restarting = {role.name: sum(map(_restarts, role.tasks)) for role in status.roles}
    return Progress(
        {role.name: _count(role) for role in status.roles},
        {role: number for role, number in restarting.items() if number},
        _end_of(status),
    )


def _end_of(status: FrameworkStatus) -> JobEnd | None:
    """An attempt is the only one of its job, so that its end is that of the whole as soon as it is known."""
    end, trigger = status.attempt.completion, status.attempt.trigger
    if end is None or end.code == Code.FRAMEWORK_EXTERNAL_DELETED:
        return None
    return JobEnd(end.succeeded, status.message, None if trigger is None else trigger.role)


def _count(role: RoleStatus) -> ReplicaCounts:
    tasks = [task for task in role.tasks if not task.deletion_pending]
    return ReplicaCounts(
        _number(tasks, _is_active), _number(tasks, _has_succeeded), _number(tasks, _has_failed)
    )


def _number(tasks: Iterable[TaskStatus], holds: Any) -> int:
    return sum(map(holds, tasks))


def _is_active(task: TaskStatus) -> bool:
    end = task.attempt.completion
    if end is None:
        return task.state is State.RUNNING
    # It ran when the whole came to its end.
    return end.code in _NOT_ITS_OWN and task.attempt.run_time is not None


def _has_succeeded(task: TaskStatus) -> bool:
    return task.succeeded


def _has_failed(task: TaskStatus) -> bool:
    """Whether its pod has failed, or it can have no other."""
    end = task.attempt.completion
    return _is_failure(end) and (task.state is State.COMPLETED or (end is not None and end.pod is not None))


def _restarts(task: TaskStatus) -> bool:
    if task.state is State.COMPLETED or task.deletion_pending:
        return False
    end = task.attempt.completion
    return _is_failure(end) or (end is None and task.retry.total > 0 and task.attempt.run_time is None)


def _is_failure(end: Completion | None) -> bool:
    return end is not None and end.failed and end.code not in _NOT_ITS_OWN
