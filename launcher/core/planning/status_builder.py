"""The Framework's own record while it is being worked on: its state, attempt, conditions and message."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launcher.core.planning.actions import ObjectEvent, StateTransition
from launcher.core.status import (
    FRAMEWORK_STEPS,
    Condition,
    FrameworkAttempt,
    FrameworkStatus,
    RetryStatus,
    State,
)
from launcher.core.timestamps import Time

#: What each state is called in an event. That pods are being created is no news: they are there to be seen.
_REASONS: Mapping[State, str] = {
    State.CREATION_PENDING: "AttemptStarted",
    State.RUNNING: "AttemptRunning",
    State.DELETION_PENDING: "AttemptEnding",
    State.DELETING: "AttemptEnding",
    State.ATTEMPT_COMPLETED: "AttemptCompleted",
}
_PASSING = frozenset(_REASONS.values())


class StatusBuilder:
    """A FrameworkStatus without its tasks, changed step by step and only by legal steps."""

    def __init__(self, status: FrameworkStatus) -> None:
        self.status = status
        self.now: Time = status.transition_time
        #: Whether anything is not as it was when this was last set to False.
        self.changed = False
        self.steps: list[StateTransition] = []
        self.notices: list[ObjectEvent] = []

    @classmethod
    def begin(cls, now: Time) -> "StatusBuilder":
        """The record of a Framework that nothing has happened to yet."""
        record = cls(FrameworkStatus(now, now, FrameworkAttempt(0, now), ()))
        record.changed = True
        record.steps.append(StateTransition(None, State.CREATION_PENDING, ""))
        return record

    @property
    def state(self) -> State:
        return self.status.state

    @property
    def attempt(self) -> FrameworkAttempt:
        return self.status.attempt

    @property
    def retry(self) -> RetryStatus:
        return self.status.retry

    def put(self, **members: Any) -> None:
        """Replace members of the status."""
        after = replace(self.status, **members)
        if after != self.status:
            self.status, self.changed = after, True

    def put_attempt(self, **members: Any) -> None:
        """Replace members of the current attempt."""
        self.put(attempt=replace(self.attempt, **members))

    def set_message(self, message: str) -> None:
        """Why it is where it is, for people."""
        self.put(message=message)

    def transition_to(self, state: State, because: str) -> None:
        """Take one legal step."""
        before, now = self.state, self.now
        if state not in FRAMEWORK_STEPS[before]:
            raise ValueError(f"no step leads a Framework from {before} to {state}")
        self.put(state=state, transition_time=now, message=because)
        match state:
            case State.RUNNING:
                self.put_attempt(run_time=now)
                self.put(run_time=now if self.status.run_time is None else self.status.run_time)
            case State.ATTEMPT_COMPLETED:
                self.put_attempt(completion_time=now)
            case State.COMPLETED:
                self.put(completion_time=now)
            case _:
                pass
        self.steps.append(StateTransition(before, state, because))
        if (before, state) != (State.DELETION_PENDING, State.DELETING):  # which is no news to anybody
            self._tell(because)
        self._judge_conditions(because)

    def condition(self, kind: str, holds: bool, reason: str, message: str = "") -> None:
        """Set one condition; its time is when it last turned."""
        known = self.status.condition(kind)
        if known is not None and known.status == holds:
            return
        if known is None and not holds:
            return  # what never held is not told
        self.put_condition(Condition(kind, holds, self.now, reason, message))

    def mark_spec_invalid(self, generation: int, fault: str) -> None:
        """Tell that the spec of that generation cannot be run."""
        known = self.status.condition("Valid")
        since = known.since if known is not None and not known.status else self.now
        fresh = Condition("Valid", False, since, "InvalidSpec", fault, generation)
        if fresh != known:
            self._tell_validity(fresh, f"nothing is begun before the spec is corrected: {fault}")

    def mark_spec_valid(self, generation: int) -> None:
        """Tell that the spec of that generation can be run, if one before it could not."""
        known = self.status.condition("Valid")
        if known is not None and not known.status:
            because = "the spec has been corrected"
            fresh = Condition("Valid", True, self.now, "SpecCorrected", because, generation)
            self._tell_validity(fresh, because)

    def _tell_validity(self, fresh: Condition, because: str) -> None:
        self.put_condition(fresh)
        if self.state is not State.COMPLETED:  # how it ended says more
            self.set_message(because)
        self.notices.append(ObjectEvent(fresh.reason, fresh.message, warning=not fresh.status))

    def put_condition(self, fresh: Condition) -> None:
        """This condition, in place of the one of its type."""
        if fresh not in self.status.conditions:
            self.put(conditions=(*(c for c in self.status.conditions if c.type != fresh.type), fresh))

    def drop_condition(self, kind: str) -> None:
        """What was told of that type is not true any more, nor is its opposite."""
        self.put(conditions=tuple(c for c in self.status.conditions if c.type != kind))

    def _tell(self, because: str) -> None:
        # Of all states that one look leads through, only the last is news.
        self.notices[:] = [notice for notice in self.notices if notice.reason not in _PASSING]
        end = self.attempt.completion
        if self.state is State.COMPLETED:
            failed = end is not None and end.failed
            self.notices.append(
                ObjectEvent("FrameworkFailed" if failed else "FrameworkSucceeded", because, failed)
            )
        elif self.state in _REASONS:
            self.notices.append(ObjectEvent(_REASONS[self.state], because))

    def _judge_conditions(self, because: str) -> None:
        state, end = self.state, self.attempt.completion
        self.condition("Running", state is State.RUNNING, state.value, because)
        if state is State.COMPLETED and end is not None:
            self.condition("Suspended", False, "Completed")
            self.condition("Failed" if end.failed else "Succeeded", True, end.phrase, because)
