"""Whether an attempt is over: tasks are counted as they end, and the first to meet a rule decides."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.planning import completion_policy
from launcher.core.planning.attempt_state import CompletedTask
from launcher.core.planning.role_state import RoleState
from launcher.core.spec import RoleName
from launcher.core.status import TaskStatus, Trigger


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The attempt is over: how, and which task decided it."""

    end: Completion
    trigger: Trigger


class CompletionTracker:
    """Knows how many tasks count towards completion, and how many of them have ended."""

    def __init__(self) -> None:
        self._total = self._ended = 0

    def recount(self, crews: Iterable[RoleState]) -> None:
        """Begin anew with these crews: after loading, after a change of the spec, for a fresh attempt."""
        counted = [each for each in crews if each.role is not None and not each.role.background]
        self._total = sum(each.desired_tasks for each in counted)
        self._ended = sum(each.count.ended for each in counted)

    def record_completion(self, finished: CompletedTask) -> AttemptResult | None:
        """Count one more task that has ended."""
        role, task, count = finished.crew.role, finished.task, finished.crew.count
        if role is None or not completion_policy.counts_toward_completion(task):
            return None
        count.add(task, role.completion)
        self._ended += not role.background
        trigger = completion_policy.completion_trigger(role, task, count)
        if trigger is not None:
            return _inherited(task, trigger)
        return None if role.background else self._all_ended(role.name, task)

    def reevaluate(self, crews: Iterable[RoleState]) -> AttemptResult | None:
        """What the rules of a changed spec make of the tasks that have ended already."""
        known = [(each.role, each.tasks) for each in crews if each.role is not None]
        first = completion_policy.first_trigger(known)
        if first is not None:
            return _inherited(first.task, first.trigger)
        last = completion_policy.last_completed_task(known)
        return None if last is None else self._all_ended(*last)

    def _all_ended(self, role: RoleName, last: TaskStatus) -> AttemptResult | None:
        if not 0 < self._total <= self._ended:
            return None
        trigger = completion_policy.all_ended(self._total, role, last.index)
        return AttemptResult(completion_for(Code.SUCCEEDED, trigger.message), trigger)


def _inherited(task: TaskStatus, trigger: Trigger) -> AttemptResult:
    """A task's end as the Framework's; the pod's own words stay with the task."""
    end = task.attempt.completion
    if end is None:
        raise ValueError("a task that has ended has a completion")
    return AttemptResult(replace(end, pod=None), trigger)
