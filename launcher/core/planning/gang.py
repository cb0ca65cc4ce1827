"""
All or nothing: whether the tasks of a gang have been placed, and how long they may wait for that.

Tasks of background roles are not part of a gang. Once enough of the others have been given their nodes, the gang is
placed for the rest of that attempt: whatever is retried or added later is placed as soon as there is room for it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.planning.actions import ObjectEvent
from launcher.core.planning.role_state import RoleState
from launcher.core.planning.status_builder import StatusBuilder
from launcher.core.spec import FrameworkSpec, Gang
from launcher.core.status import Condition, FrameworkStatus, State, TaskStatus, Trigger, was_scheduled
from launcher.core.timestamps import Time

#: The condition that tells whether the gang of the current attempt has been placed.
GANG_PLACED = "GangPlaced"

_NO_GANG = Condition(
    GANG_PLACED,
    True,
    0,
    "NoGang",
    "spec.gang is gone, so each task is placed as soon as there is room for it",
)


def members(spec: FrameworkSpec) -> int:
    """How many tasks the gang of *spec* has."""
    return sum(role.tasks for role in spec.roles if not role.background)


def min_members(spec: FrameworkSpec) -> int:
    """How many tasks have to be placed together; 0 where none have to."""
    return 0 if spec.gang is None else _least(spec.gang, members(spec))


def is_unplaced(status: FrameworkStatus) -> bool:
    """Whether the gang of the current attempt has not been placed yet. False for what is no gang."""
    condition = status.condition(GANG_PLACED)
    return condition is not None and not condition.status


def is_placed(status: FrameworkStatus) -> bool:
    """Whether the gang of the current attempt has been placed. False for what is no gang."""
    condition = status.condition(GANG_PLACED)
    return condition is not None and condition.status


@dataclass(frozen=True, slots=True)
class GangEvaluation:
    """What a look at a gang came to: how the attempt has to end, or when the gang's time will be over."""

    until: Time | None = None
    end: Completion | None = None
    because: str = ""
    #: The task that brought about the end.
    trigger: Trigger | None = None


_OVER = GangEvaluation()


def evaluate_gang(
    gang: Gang | None, crews: Iterable[RoleState], known: StatusBuilder, placer: str = ""
) -> GangEvaluation:
    """See whether the gang has been placed, and write down how it stands, and with whom, if that is known."""
    condition = known.status.condition(GANG_PLACED)
    if gang is None:
        if condition is not None and not condition.status:
            known.put_condition(replace(_NO_GANG, since=known.now))
        return _OVER
    if condition is not None and condition.status:
        return _OVER
    party = _Party.of(gang, crews, placer)
    if party.placed >= party.need:
        _tell_placed(party, known)
        return _OVER
    since = known.now if condition is None else condition.since
    words = f"the gang waits: {party.words()}"
    known.put_condition(Condition(GANG_PLACED, False, since, "WaitingForRoom", words))
    if known.state is State.PREPARING:
        known.set_message(words)
    if party.lost > party.total - party.need:
        return party.hopeless()
    if gang.timeout_seconds is None:
        return _OVER
    due = since + gang.timeout_seconds
    return party.too_late(gang.timeout_seconds) if known.now >= due else GangEvaluation(until=due)


def begin(known: StatusBuilder) -> None:
    """Another attempt begins: its gang has not been placed, and has not waited yet."""
    known.drop_condition(GANG_PLACED)


@dataclass(frozen=True, slots=True)
class _Party:
    """The members of a gang, counted."""

    crews: tuple[RoleState, ...]
    total: int
    need: int
    placed: int
    #: Ended without ever having been placed.
    lost: int
    #: Who places them; empty where there is no choice.
    placer: str

    @classmethod
    def of(cls, gang: Gang, crews: Iterable[RoleState], placer: str) -> "_Party":
        own = tuple(crew for crew in crews if crew.role is not None and not crew.role.background)
        total = sum(crew.desired_tasks for crew in own)
        return cls(
            crews=own,
            total=total,
            need=_least(gang, total),
            placed=sum(crew.placed for crew in own),
            lost=sum(crew.ended_unscheduled for crew in own),
            placer=placer,
        )

    @property
    def done(self) -> str:
        """What becomes of them, and by whom."""
        return f"placed by {self.placer}" if self.placer else "placed"

    def words(self) -> str:
        """How many are placed, and why another one is not."""
        least = "" if self.need == self.total else f", at least {self.need} are wanted"
        return f"{self.placed} of {self.total} tasks {self.done}{least}; {self._hindrance()}"

    def _hindrance(self) -> str:
        for crew, task in self._those(_waits):
            if task.message:
                return f"{crew.name}[{task.index}]: {task.message}"
        return "the others have no node yet"

    def _those(self, which: Callable[[TaskStatus], bool]) -> Iterator[tuple[RoleState, TaskStatus]]:
        return ((crew, task) for crew in self.crews for task in crew.tasks if which(task))

    def too_late(self, limit: int) -> GangEvaluation:
        because = f"the gang has waited {limit} s for room (gang.timeoutSeconds): {self.words()}"
        return GangEvaluation(end=completion_for(Code.GANG_TIMEOUT, because), because=because)

    def hopeless(self) -> GangEvaluation:
        """A member ended before there was a gang, and too few are left for one."""
        crew, task = min(self._those(_is_lost), key=lambda found: found[1].completion_time or 0)
        end = task.attempt.completion
        if end is None:
            raise ValueError("a task that has ended has a completion")
        because = (
            f"{crew.name}[{task.index}] ended before the gang was placed, and {self.need} tasks are wanted"
        )
        return GangEvaluation(
            end=replace(end, pod=None), because=because, trigger=Trigger(because, crew.name, task.index)
        )


def _least(gang: Gang, total: int) -> int:
    return total if gang.min_tasks is None else min(gang.min_tasks, total)


def _waits(task: TaskStatus) -> bool:
    return not task.deletion_pending and not was_scheduled(task) and task.state is not State.COMPLETED


def _is_lost(task: TaskStatus) -> bool:
    return not task.deletion_pending and not was_scheduled(task) and task.state is State.COMPLETED


def _tell_placed(party: _Party, known: StatusBuilder) -> None:
    of = "all" if party.placed == party.total else f"{party.placed} of"
    words = f"{of} {party.total} tasks of the gang are {party.done}"
    known.put_condition(Condition(GANG_PLACED, True, known.now, "Placed", words))
    known.notices.append(ObjectEvent(GANG_PLACED, words))
