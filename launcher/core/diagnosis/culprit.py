"""The first task that failed."""

from typing import Final, NamedTuple

from launcher.core.completion_codes import Code
from launcher.core.planning.messages import task_name
from launcher.core.spec import RoleName
from launcher.core.status import FrameworkStatus, State, TaskStatus

#: Completions that follow from another one, and are not reported.
CONSEQUENCES: Final = frozenset(
    {Code.FRAMEWORK_ATTEMPT_COMPLETION, Code.DELETE_TASK_REQUESTED, Code.STOP_FRAMEWORK_REQUESTED}
)


class TaskReference(NamedTuple):
    """A task by role and index."""

    role: RoleName
    task_index: int

    @property
    def name(self) -> str:
        return task_name(self.role, self.task_index)


def find_culprit(status: FrameworkStatus | None) -> TaskReference | None:
    """
    The first task that failed; None if none failed.

    Of several in the same second it is the one that completed the attempt, or else one whose pod failed, since others
    may follow from it.
    """
    if status is None:
        return None
    trigger = status.attempt.trigger
    decided = (trigger.role, trigger.index) if trigger is not None else None
    failed = (
        (
            task.attempt.completion_time or 0,
            (role.name, task.index) != decided,
            task.attempt.completion is not None and task.attempt.completion.pod is None,
            role.name,
            task.index,
        )
        for role in status.roles
        for task in role.tasks
        if task.state is State.COMPLETED and has_failed(task)
    )
    first = min(failed, default=None)
    return TaskReference(first[3], first[4]) if first is not None else None


def has_failed(task: TaskStatus) -> bool:
    """Whether the current attempt of the task failed by itself."""
    completion = task.attempt.completion
    return completion is not None and completion.failed and completion.code not in CONSEQUENCES
