"""
Gangs: whether all tasks were scheduled together, and for how long they may wait for that.

Tasks of background roles are not members. Once enough members have a node, the gang is placed for the rest of the
attempt: tasks that are retried or added later are scheduled individually.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.events import ObjectEvent
from launcher.core.planning import messages
from launcher.core.planning.role_state import RoleState
from launcher.core.spec import FrameworkSpec, Gang
from launcher.core.status import Condition, FrameworkStatus, State, TaskStatus, Trigger, was_scheduled
from launcher.core.timestamps import Time

#: The type of the condition that says whether the gang of the current attempt is placed.
GANG_PLACED = "GangPlaced"


def members(spec: FrameworkSpec) -> int:
    """The number of tasks in the gang."""
    return sum(role.tasks for role in spec.roles if not role.background)


def min_members(spec: FrameworkSpec) -> int:
    """The number of tasks that have to be scheduled together; 0 without a gang."""
    return 0 if spec.gang is None else _minimum(spec.gang, members(spec))


def is_unplaced(status: FrameworkStatus) -> bool:
    """Whether the current attempt has a gang that is not placed yet."""
    condition = status.condition(GANG_PLACED)
    return condition is not None and not condition.status


def is_placed(status: FrameworkStatus) -> bool:
    """Whether the current attempt has a gang that is placed."""
    condition = status.condition(GANG_PLACED)
    return condition is not None and condition.status


@dataclass(frozen=True, slots=True)
class GangEvaluation:
    """The result of ``evaluate_gang``; fields that are None or empty change nothing."""

    condition: Condition | None = None
    events: tuple[ObjectEvent, ...] = ()
    #: When gang.timeoutSeconds will be exceeded.
    deadline: Time | None = None
    #: The completion of the attempt, and the task that caused it.
    completion: Completion | None = None
    trigger: Trigger | None = None


_UNCHANGED = GangEvaluation()


def evaluate_gang(
    gang: Gang | None, roles: Iterable[RoleState], condition: Condition | None, now: Time, backend: str = ""
) -> GangEvaluation:
    """
    Evaluates whether the gang is placed, has exceeded its timeout, or can no longer be placed.

    *condition* is the current GangPlaced condition; *backend* names what schedules the gang, for messages.
    """
    if gang is None:
        if condition is None or condition.status:
            return _UNCHANGED
        removed = Condition(GANG_PLACED, True, now, "NoGang", messages.GANG_REMOVED)
        return GangEvaluation(condition=removed)
    if condition is not None and condition.status:
        return _UNCHANGED
    counts = _MemberCounts.count(gang, roles)
    if counts.scheduled >= counts.minimum:
        message = messages.gang_scheduled(counts.scheduled, counts.total, backend)
        placed = Condition(GANG_PLACED, True, now, "Placed", message)
        return GangEvaluation(condition=placed, events=(ObjectEvent(GANG_PLACED, message),))
    since = now if condition is None else condition.since
    message = messages.gang_unschedulable(backend, counts.progress())
    unplaced = GangEvaluation(condition=Condition(GANG_PLACED, False, since, "Unschedulable", message))
    if counts.lost > counts.total - counts.minimum:
        completion, trigger = counts.lost_member()
        return replace(unplaced, completion=completion, trigger=trigger)
    if gang.timeout_seconds is None:
        return unplaced
    due = since + gang.timeout_seconds
    if now < due:
        return replace(unplaced, deadline=due)
    reason = messages.gang_timeout(gang.timeout_seconds, counts.progress())
    return replace(unplaced, completion=completion_for(Code.GANG_TIMEOUT, reason))


@dataclass(frozen=True, slots=True)
class _MemberCounts:
    """The members of a gang, counted."""

    roles: tuple[RoleState, ...]
    total: int
    minimum: int
    scheduled: int
    #: Completed without having been scheduled.
    lost: int

    @classmethod
    def count(cls, gang: Gang, roles: Iterable[RoleState]) -> "_MemberCounts":
        own = tuple(role for role in roles if role.role is not None and not role.role.background)
        total = sum(role.desired_tasks for role in own)
        return cls(
            roles=own,
            total=total,
            minimum=_minimum(gang, total),
            scheduled=sum(role.placed for role in own),
            lost=sum(role.ended_unscheduled for role in own),
        )

    def progress(self) -> str:
        """How many members have a node, and the reason of the first one that does not."""
        return messages.gang_progress(self.scheduled, self.total, self.minimum, self._first_reason())

    def _first_reason(self) -> str:
        for role, task in self._tasks(_is_unscheduled):
            if task.message:
                return f"{messages.task_name(role.name, task.index)}: {task.message}"
        return ""

    def _tasks(self, predicate: Callable[[TaskStatus], bool]) -> Iterator[tuple[RoleState, TaskStatus]]:
        return ((role, task) for role in self.roles for task in role.tasks if predicate(task))

    def lost_member(self) -> tuple[Completion, Trigger]:
        """The completion of the first member that completed unscheduled, after which too few are left."""
        role, task = min(self._tasks(_is_lost), key=lambda member: member[1].completion_time or 0)
        completion = task.attempt.completion
        if completion is None:
            raise ValueError("a completed task has a completion")
        reason = messages.gang_member_lost(role.name, task.index, self.minimum)
        return replace(completion, pod=None), Trigger(reason, role.name, task.index)


def _minimum(gang: Gang, total: int) -> int:
    return total if gang.min_tasks is None else min(gang.min_tasks, total)


def _is_unscheduled(task: TaskStatus) -> bool:
    return not task.deletion_pending and not was_scheduled(task) and task.state is not State.COMPLETED


def _is_lost(task: TaskStatus) -> bool:
    return not task.deletion_pending and not was_scheduled(task) and task.state is State.COMPLETED
