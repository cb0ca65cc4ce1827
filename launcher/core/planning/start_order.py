"""When a role's pods may be created: ``roleSequence`` orders creation, ``startAfter`` waits for other roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from launcher.core.planning import messages
from launcher.core.spec import FrameworkSpec, RoleName, StartCondition, TaskRole


class RoleProgress(Protocol):
    """The number of a role's tasks by progress."""

    @property
    def waiting(self) -> int:
        """Tasks whose pod is not created yet."""

    @property
    def running(self) -> int: ...

    @property
    def ready(self) -> int: ...

    @property
    def succeeded(self) -> int: ...

    @property
    def unfinished(self) -> int:
        """Tasks that have not completed."""


@dataclass(frozen=True, slots=True)
class StartGate:
    """Whether a role's pods may be created: if a reason is set, they may not yet, or never."""

    waiting_reason: str = ""
    unreachable_reason: str = ""


OPEN = StartGate()


def start_gate(role: TaskRole, spec: FrameworkSpec, progress: Mapping[RoleName, RoleProgress]) -> StartGate:
    """Returns the gate of *role*, given the progress of all roles."""
    for after in role.start_after:
        required = after.at_least if after.at_least is not None else _task_number(spec, after.role)
        other = progress.get(after.role)
        reached = _reached(after.condition, other) if other is not None else 0
        if reached >= required:
            continue
        if reached + _still_possible(after.condition, other) < required:
            return StartGate(unreachable_reason=messages.start_after_unreachable(after))
        return StartGate(waiting_reason=messages.waiting_for_start_after(after))
    for earlier in spec.role_sequence:
        if earlier == role.name:
            break
        other = progress.get(earlier)
        if other is not None and other.waiting:
            return StartGate(waiting_reason=messages.waiting_for_sequence(earlier))
    return OPEN


def _task_number(spec: FrameworkSpec, name: RoleName) -> int:
    return next((role.tasks for role in spec.roles if role.name == name), 0)


def _reached(condition: StartCondition, role: RoleProgress) -> int:
    match condition:
        case StartCondition.RUNNING:
            return role.running + role.succeeded
        case StartCondition.READY:
            return role.ready + role.succeeded
        case StartCondition.SUCCEEDED:
            return role.succeeded


def _still_possible(condition: StartCondition, role: RoleProgress | None) -> int:
    """The number of further tasks that can reach *condition*."""
    if role is None:
        return 0
    match condition:
        case StartCondition.RUNNING:
            return role.unfinished - role.running
        case StartCondition.READY:
            return role.unfinished - role.ready
        case StartCondition.SUCCEEDED:
            return role.unfinished
