"""What a plan says: things to do, steps that were taken, and what to tell people."""

from dataclasses import dataclass

from launcher.core.spec import PodName, RoleName
from launcher.core.status import State


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of this task attempt."""

    role: RoleName
    index: int
    incarnation: int
    attempt: int


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete this very pod; by *force* without waiting for its node."""

    name: PodName
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class ListPodsLive:
    """Read this Framework's pods from the store itself, not from the cache, and look again with what is there."""


@dataclass(frozen=True, slots=True)
class DeleteFramework:
    """Delete the Framework; its time after the end is over."""

    reason: str


Action = CreatePod | DeletePod | ListPodsLive | DeleteFramework


@dataclass(frozen=True, slots=True)
class StateTransition:
    """A change of state, of one task or (without role) of the Framework, and why."""

    before: State | None
    after: State
    reason: str
    role: RoleName | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """Something worth an event."""

    reason: str
    message: str
    warning: bool = False
