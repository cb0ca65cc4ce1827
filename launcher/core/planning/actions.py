"""The actions of a plan, and the state transitions that it made."""

from dataclasses import dataclass

from launcher.core.planning.retry import Retry
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
    """Delete the pod of this uid; with *force* without waiting for its node."""

    name: PodName
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class ListPodsLive:
    """List this Framework's pods from the store, not from the cache, and plan again."""


@dataclass(frozen=True, slots=True)
class DeleteFramework:
    """Delete the Framework after its ttlSecondsAfterFinished."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecordAttempt:
    """Store the completed attempt of the Framework as a FrameworkAttempt, before the next attempt replaces it."""

    #: The id of the attempt.
    attempt: int
    #: Why it completed.
    message: str
    retry: Retry


@dataclass(frozen=True, slots=True)
class ReadOutput:
    """Read the last output of the pod of this uid: its task may have stalled."""

    name: PodName
    uid: str


Action = CreatePod | DeletePod | ListPodsLive | DeleteFramework | RecordAttempt | ReadOutput


@dataclass(frozen=True, slots=True)
class StateTransition:
    """A change of state of a task or, without role, of the Framework."""

    before: State | None
    after: State
    reason: str
    role: RoleName | None = None
    index: int | None = None
