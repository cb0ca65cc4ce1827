"""Completion policies: which task completes the Framework attempt, and by which rule."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.core.planning import messages
from launcher.core.spec import CompletionPolicy, RoleName, TaskRole
from launcher.core.status import State, TaskStatus, Trigger


@dataclass(slots=True)
class CompletionCounts:
    """The number of completed tasks of a role."""

    failed: int = 0
    succeeded: int = 0
    #: Succeeded tasks in ``succeededIndexes``.
    named: int = 0

    @property
    def ended(self) -> int:
        return self.failed + self.succeeded

    def add(self, task: TaskStatus, policy: CompletionPolicy) -> None:
        """Counts one more completed task."""
        if not task.succeeded:
            self.failed += 1
            return
        self.succeeded += 1
        self.named += task.index in policy.succeeded_indexes


def counts_toward_completion(task: TaskStatus) -> bool:
    """Whether the task completed and was not removed by a scale-down."""
    return task.state is State.COMPLETED and not task.deletion_pending


def completion_trigger(role: TaskRole, task: TaskStatus, count: CompletionCounts) -> Trigger | None:
    """Returns the trigger if *task*, counted last in *count*, completes the attempt by a rule of its role."""
    if role.background:
        return None
    message = _success_message(role, task, count) if task.succeeded else _failure_message(role, count)
    return Trigger(message, role.name, task.index) if message else None


def _failure_message(role: TaskRole, count: CompletionCounts) -> str:
    minimum = role.completion.min_failed
    return messages.failed_tasks(role.name, count.failed, minimum) if 1 <= minimum <= count.failed else ""


def _success_message(role: TaskRole, task: TaskStatus, count: CompletionCounts) -> str:
    policy = role.completion
    if 1 <= policy.min_succeeded <= count.succeeded:
        return messages.succeeded_tasks(role.name, count.succeeded, policy.min_succeeded)
    if task.index in policy.succeeded_indexes and count.named == len(policy.succeeded_indexes):
        return messages.succeeded_indexes(role.name)
    return ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that met a rule at *time*."""

    time: int
    trigger: Trigger
    task: TaskStatus


def first_trigger(roles: Iterable[tuple[TaskRole, Sequence[TaskStatus]]]) -> Candidate | None:
    """
    Returns the first completed task that meets a rule of the current spec, which may have changed.

    Ties go to the earlier role, then to failure before success, then to the lower index.
    """
    first: Candidate | None = None
    for role, tasks in roles:
        completed = sorted(
            filter(counts_toward_completion, tasks), key=lambda task: task.completion_time or 0
        )
        for succeeded in (False, True):
            count = CompletionCounts()
            for task in completed:
                if task.succeeded is not succeeded:
                    continue
                count.add(task, role.completion)
                trigger = completion_trigger(role, task, count)
                if trigger is None:
                    continue
                time = task.completion_time or 0
                if first is None or time < first.time:
                    first = Candidate(time, trigger, task)
                break
    return first


def last_completed_task(
    roles: Iterable[tuple[TaskRole, Sequence[TaskStatus]]],
) -> tuple[RoleName, TaskStatus] | None:
    """Returns the task that completed last; ties go to the earlier role, then to the higher index."""
    latest: tuple[RoleName, TaskStatus] | None = None
    for role, tasks in roles:
        completed = list(filter(counts_toward_completion, tasks))
        if role.background or not completed:
            continue
        last = max(completed, key=lambda task: (task.completion_time or 0, task.index))
        if latest is None or (last.completion_time or 0) > (latest[1].completion_time or 0):
            latest = (role.name, last)
    return latest
