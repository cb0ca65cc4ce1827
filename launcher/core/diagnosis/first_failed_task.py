"""The first task that failed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from launcher.core.completion_codes import Code
from launcher.core.planning.messages import task_name
from launcher.core.spec import RoleName
from launcher.core.status import FrameworkStatus, State, TaskStatus

#: Completions that follow from another one, and are not reported.
CONSEQUENCES: Final = frozenset(
    {Code.FRAMEWORK_ATTEMPT_COMPLETION, Code.DELETE_TASK_REQUESTED, Code.STOP_FRAMEWORK_REQUESTED}
)

#: States of a task whose attempt has ended; the pod is kept until its retry.
_ENDED_STATES: Final = frozenset({State.COMPLETED, State.ATTEMPT_COMPLETED, State.DELETION_PENDING})


class TaskReference(NamedTuple):
    """A task by role and index."""

    role: RoleName
    task_index: int

    @property
    def name(self) -> str:
        return task_name(self.role, self.task_index)


def failed_tasks(status: FrameworkStatus) -> Sequence[tuple[RoleName, TaskStatus]]:
    """The tasks whose current attempt failed by itself, also those that are retried later."""
    return [
        (role.name, task)
        for role in status.roles
        for task in role.tasks
        if (completion := task.attempt.completion) is not None
        and completion.failed
        and completion.code not in CONSEQUENCES
        and task.state in _ENDED_STATES
    ]


def first_failed_task(
    status: FrameworkStatus, failed: Sequence[tuple[RoleName, TaskStatus]]
) -> TaskReference | None:
    """
    The first of the *failed* tasks that is not retried; None if there is none.

    Of several in the same second it is the one that completed the attempt, or else one whose pod failed, since others
    may follow from it.
    """
    trigger = status.attempt.trigger
    decided = (trigger.role, trigger.index) if trigger is not None else None
    ranked = (
        (
            task.attempt.completion_time or 0,
            (role, task.index) != decided,
            task.attempt.completion is not None and task.attempt.completion.pod is None,
            role,
            task.index,
        )
        for role, task in failed
        if task.state is State.COMPLETED
    )
    first = min(ranked, default=None)
    return TaskReference(first[3], first[4]) if first is not None else None
