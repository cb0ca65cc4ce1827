"""When the tasks of an attempt decide that it is over, and which task decided it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.core.spec import CompletionPolicy, RoleName, TaskRole
from launcher.core.status import State, TaskStatus, Trigger


@dataclass(slots=True)
class CompletionCounts:
    """How many tasks of a role have ended so far, each counted once."""

    failed: int = 0
    succeeded: int = 0
    #: Of those named in ``succeededIndexes``.
    named: int = 0

    @property
    def ended(self) -> int:
        return self.failed + self.succeeded

    def add(self, task: TaskStatus, policy: CompletionPolicy) -> None:
        """Count one more task that ended."""
        if not task.succeeded:
            self.failed += 1
            return
        self.succeeded += 1
        self.named += task.index in policy.succeeded_indexes


def counts_toward_completion(task: TaskStatus) -> bool:
    """Whether the task counts: it ended for good, and no scale-down has removed it."""
    return task.state is State.COMPLETED and not task.deletion_pending


def completion_trigger(role: TaskRole, task: TaskStatus, count: CompletionCounts) -> Trigger | None:
    """Whether *task*, counted last into *count*, ends the attempt by a rule of its own role."""
    if role.background:
        return None
    because = (
        _failed(role.completion, count) if not task.succeeded else _succeeded(role.completion, task, count)
    )
    return Trigger(f"role {role.name}: {because}", role.name, task.index) if because else None


def _failed(policy: CompletionPolicy, count: CompletionCounts) -> str:
    if not 1 <= policy.min_failed <= count.failed:
        return ""
    return f"{_tasks(count.failed)} failed, and minFailedTaskCount is {policy.min_failed}"


def _succeeded(policy: CompletionPolicy, task: TaskStatus, count: CompletionCounts) -> str:
    if 1 <= policy.min_succeeded <= count.succeeded:
        return f"{_tasks(count.succeeded)} succeeded, and minSucceededTaskCount is {policy.min_succeeded}"
    if task.index in policy.succeeded_indexes and count.named == len(policy.succeeded_indexes):
        return "every task named in succeededIndexes has succeeded"
    return ""


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


def all_ended(total: int, role: RoleName, index: int) -> Trigger:
    """Nothing is left to run and no rule has fired: the attempt has succeeded, whatever its tasks' ends."""
    return Trigger(f"every task has ended ({total}), and no rule of any role was met before", role, index)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that would have ended the attempt at *time*."""

    time: int
    trigger: Trigger
    task: TaskStatus


def first_trigger(roles: Iterable[tuple[TaskRole, Sequence[TaskStatus]]]) -> Candidate | None:
    """
    The first task ever to meet a rule as the rules are now: what a changed spec makes of the tasks that ended.

    Ties go to the earlier role, then to failure before success, then to the lower index.
    """
    found: Candidate | None = None
    for role, tasks in roles:
        ended = sorted(filter(counts_toward_completion, tasks), key=lambda task: task.completion_time or 0)
        for wanted in (False, True):
            count = CompletionCounts()
            for task in ended:
                if task.succeeded is not wanted:
                    continue
                count.add(task, role.completion)
                trigger = completion_trigger(role, task, count)
                if trigger is None:
                    continue
                time = task.completion_time or 0
                if found is None or time < found.time:
                    found = Candidate(time, trigger, task)
                break
    return found


def last_completed_task(
    roles: Iterable[tuple[TaskRole, Sequence[TaskStatus]]],
) -> tuple[RoleName, TaskStatus] | None:
    """The task that ended last: of equals the earlier role's, and in a role the highest index."""
    found: tuple[RoleName, TaskStatus] | None = None
    for role, tasks in roles:
        ended = list(filter(counts_toward_completion, tasks))
        if role.background or not ended:
            continue
        last = max(ended, key=lambda task: (task.completion_time or 0, task.index))
        if found is None or (last.completion_time or 0) > (found[1].completion_time or 0):
            found = (role.name, last)
    return found
