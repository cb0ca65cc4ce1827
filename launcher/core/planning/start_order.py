"""Who starts when: ``roleSequence`` orders the creation of pods, ``startAfter`` waits for what others reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from launcher.core.spec import FrameworkSpec, RoleName, StartAfter, StartCondition, TaskRole


class RoleProgress(Protocol):
    """How far the tasks of one role have come."""

    @property
    def waiting(self) -> int:
        """Tasks that no pod has been accepted for yet."""

    @property
    def running(self) -> int: ...

    @property
    def ready(self) -> int: ...

    @property
    def succeeded(self) -> int: ...

    @property
    def unfinished(self) -> int:
        """Tasks that have not ended for good."""


@dataclass(frozen=True, slots=True)
class StartGate:
    """Whether a role's pods may be created; if not, why not, and whether they ever may."""

    hold: str = ""
    unreachable: str = ""


OPEN = StartGate()


def gate(role: TaskRole, spec: FrameworkSpec, standing: Mapping[RoleName, RoleProgress]) -> StartGate:
    """Whether *role* may start now."""
    for after in role.start_after:
        need = after.at_least if after.at_least is not None else _size(spec, after.role)
        there = standing.get(after.role)
        reached = _reached(after.condition, there) if there is not None else 0
        if reached >= need:
            continue
        if reached + _still_possible(after.condition, there) < need:
            return StartGate(unreachable=f"{_wish(after)}, which can no longer be")
        return StartGate(hold=_wish(after))
    for earlier in spec.role_sequence:
        if earlier == role.name:
            break
        there = standing.get(earlier)
        if there is not None and there.waiting:
            return StartGate(hold=f"waits until every pod of role {earlier} has been accepted (roleSequence)")
    return OPEN


def _wish(after: StartAfter) -> str:
    many = f"{after.at_least} of role {after.role}" if after.at_least is not None else f"role {after.role}"
    return f"waits for {many} to be {after.condition} (startAfter)"


def _size(spec: FrameworkSpec, name: RoleName) -> int:
    return next((role.tasks for role in spec.roles if role.name == name), 0)


def _reached(condition: StartCondition, there: RoleProgress) -> int:
    match condition:
        case StartCondition.RUNNING:
            return there.running + there.succeeded
        case StartCondition.READY:
            return there.ready + there.succeeded
        case StartCondition.SUCCEEDED:
            return there.succeeded


def _still_possible(condition: StartCondition, there: RoleProgress | None) -> int:
    """How many more could get there."""
    if there is None:
        return 0
    match condition:
        case StartCondition.RUNNING:
            return there.unfinished - there.running
        case StartCondition.READY:
            return there.unfinished - there.ready
        case StartCondition.SUCCEEDED:
            return there.unfinished
