"""The status of a Framework during planning: state, attempt, conditions and message."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launcher.core.completion_codes import Code, Completion
from launcher.core.events import ObjectEvent
from launcher.core.planning import messages
from launcher.core.planning.actions import StateTransition
from launcher.core.status import (
    FRAMEWORK_STEPS,
    Condition,
    FrameworkAttempt,
    FrameworkStatus,
    RetryStatus,
    State,
)
from launcher.core.timestamps import Time

#: The event reason of each state. There is no event for the creation of pods, which have events of their own.
_REASONS: Mapping[State, str] = {
    State.CREATION_PENDING: "AttemptStarted",
    State.RUNNING: "AttemptRunning",
    State.DELETION_PENDING: "AttemptEnding",
    State.DELETING: "AttemptEnding",
    State.ATTEMPT_COMPLETED: "AttemptCompleted",
}
_TRANSITION_REASONS = frozenset(_REASONS.values())


class StatusBuilder:
    """A FrameworkStatus without its tasks, changed only by legal transitions."""

    def __init__(self, status: FrameworkStatus) -> None:
        self.status = status
        self.now: Time = status.transition_time
        #: Whether the status changed since this was last set to False.
        self.changed = False
        self.transitions: list[StateTransition] = []
        self.events: list[ObjectEvent] = []

    @classmethod
    def new(cls, now: Time) -> "StatusBuilder":
        """Returns the status of a new Framework."""
        builder = cls(FrameworkStatus(now, now, FrameworkAttempt(0, now), ()))
        builder.changed = True
        builder.transitions.append(StateTransition(None, State.CREATION_PENDING, ""))
        return builder

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
        """Replaces members of the status."""
        after = replace(self.status, **members)
        if after != self.status:
            self.status, self.changed = after, True

    def put_attempt(self, **members: Any) -> None:
        """Replaces members of the current attempt."""
        self.put(attempt=replace(self.attempt, **members))

    def set_message(self, message: str) -> None:
        if message != self.status.message:
            self.status, self.changed = replace(self.status, message=message), True

    def transition_to(self, state: State, reason: str) -> None:
        """Makes one transition. Raises ValueError if it is illegal."""
        before, now = self.state, self.now
        if state not in FRAMEWORK_STEPS[before]:
            raise ValueError(f"illegal transition of a Framework from {before} to {state}")
        self.put(state=state, transition_time=now, message=reason)
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
        self.transitions.append(StateTransition(before, state, reason))
        if (before, state) != (State.DELETION_PENDING, State.DELETING):  # both are reported as AttemptEnding
            self._add_event(reason)
        self._set_conditions(reason)

    def condition(self, kind: str, status: bool, reason: str, message: str = "") -> None:
        """Sets one condition; its time is that of its last change of status."""
        previous = self.status.condition(kind)
        if previous is not None and previous.status == status:
            return
        if previous is None and not status:
            return  # a condition that was never true is not written
        self.put_condition(Condition(kind, status, self.now, reason, message))

    def mark_spec_invalid(self, generation: int, errors: str) -> None:
        """Records that the spec of that generation is invalid."""
        previous = self.status.condition("Valid")
        since = previous.since if previous is not None and not previous.status else self.now
        condition = Condition("Valid", False, since, "InvalidSpec", errors, generation)
        if condition != previous:
            self._put_validity(condition, messages.invalid_spec(errors))

    def mark_spec_valid(self, generation: int) -> None:
        """Records that the spec of that generation is valid, if the previous one was not."""
        previous = self.status.condition("Valid")
        if previous is not None and not previous.status:
            reason = messages.SPEC_CORRECTED
            condition = Condition("Valid", True, self.now, "SpecCorrected", reason, generation)
            self._put_validity(condition, reason)

    def _put_validity(self, condition: Condition, reason: str) -> None:
        self.put_condition(condition)
        if self.state is not State.COMPLETED:  # the message of a completed Framework stays
            self.set_message(reason)
        self.events.append(ObjectEvent(condition.reason, condition.message, warning=not condition.status))

    def put_condition(self, condition: Condition) -> None:
        """Replaces the condition of the same type."""
        if condition not in self.status.conditions:
            self.put(conditions=(*(c for c in self.status.conditions if c.type != condition.type), condition))

    def drop_condition(self, kind: str) -> None:
        """Removes the condition of that type."""
        self.put(conditions=tuple(c for c in self.status.conditions if c.type != kind))

    def _add_event(self, reason: str) -> None:
        # Of several transitions in one pass, only the last is reported.
        self.events[:] = [event for event in self.events if event.reason not in _TRANSITION_REASONS]
        if self.state is State.COMPLETED:
            self.events.append(_completion_event(self.attempt.completion, reason))
        elif self.state in _REASONS:
            self.events.append(ObjectEvent(_REASONS[self.state], reason))

    def _set_conditions(self, reason: str) -> None:
        state, end = self.state, self.attempt.completion
        self.condition("Running", state is State.RUNNING, state.value, reason)
        if state is State.COMPLETED and end is not None:
            self.condition("Suspended", False, "Completed")
            self.condition("Failed" if end.failed else "Succeeded", True, end.phrase, reason)


def _completion_event(completion: Completion | None, message: str) -> ObjectEvent:
    """The event of a completed Framework; a stop by its user is no warning."""
    if completion is None or not completion.failed:
        return ObjectEvent("FrameworkSucceeded", message)
    if completion.code == Code.STOP_FRAMEWORK_REQUESTED:
        return ObjectEvent("FrameworkStopped", message)
    return ObjectEvent("FrameworkFailed", message, warning=True)
