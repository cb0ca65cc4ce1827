"""Decides when an attempt completes: tasks are counted as they complete, and the first to meet a rule decides."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.planning import completion_policy, messages
from launcher.core.planning.attempt_state import CompletedTask
from launcher.core.planning.role_state import RoleState
from launcher.core.spec import RoleName
from launcher.core.status import TaskStatus, Trigger


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The completion of an attempt, and the task that triggered it."""

    completion: Completion
    trigger: Trigger


class CompletionTracker:
    """Counts the tasks that count towards completion, and those of them that completed."""

    def __init__(self) -> None:
        self._total = self._completed = self._failed = 0

    def recount(self, roles: Iterable[RoleState]) -> None:
        """Counts anew: after loading, after a change of the spec, for a new attempt."""
        counted = [role for role in roles if role.role is not None and not role.role.background]
        self._total = sum(role.desired_tasks for role in counted)
        self._completed = sum(role.count.ended for role in counted)
        self._failed = sum(role.count.failed for role in counted)

    def record_completion(self, completed: CompletedTask) -> AttemptResult | None:
        """Counts one more completed task. Returns the result if it completes the attempt."""
        role, task, count = completed.role.role, completed.task, completed.role.count
        if role is None or not completion_policy.counts_toward_completion(task):
            return None
        count.add(task, role.completion)
        if not role.background:
            self._completed += 1
            self._failed += not task.succeeded
        trigger = completion_policy.completion_trigger(role, task, count)
        if trigger is not None:
            return _result_of_task(task, trigger)
        return None if role.background else self._all_completed(role.name, task)

    def reevaluate(self, roles: Iterable[RoleState]) -> AttemptResult | None:
        """Applies the rules of a changed spec to the tasks that already completed."""
        current = [(role.role, role.tasks) for role in roles if role.role is not None]
        first = completion_policy.first_trigger(current)
        if first is not None:
            return _result_of_task(first.task, first.trigger)
        last = completion_policy.last_completed_task(current)
        return None if last is None else self._all_completed(*last)

    def _all_completed(self, role: RoleName, last: TaskStatus) -> AttemptResult | None:
        """The attempt succeeds when all tasks completed and no rule was met, whatever their completions."""
        if not 0 < self._total <= self._completed:
            return None
        message = messages.all_tasks_completed(self._completed - self._failed, self._failed)
        trigger = Trigger(message, role, last.index)
        return AttemptResult(completion_for(Code.SUCCEEDED, message), trigger)


def _result_of_task(task: TaskStatus, trigger: Trigger) -> AttemptResult:
    """The attempt completes as the task did; the details of the pod stay with the task."""
    completion = task.attempt.completion
    if completion is None:
        raise ValueError("a completed task has a completion")
    return AttemptResult(replace(completion, pod=None), trigger)
