"""
Completion codes of attempts.

Negative codes are set by the launcher: -1xx for transient failures, -2xx for permanent ones, -3xx for unknown ones.
Positive codes are exit codes of containers. Three of them are predefined: with these a program reports the type of
its failure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache

from launcher.core.timestamps import Time, parse_rfc3339


class Attribute(StrEnum):
    """Attributes of a failure. A failure without attributes is of unknown type."""

    TRANSIENT = "Transient"
    PERMANENT = "Permanent"
    CONFLICT = "Conflict"


Attributes = frozenset[Attribute]

_NONE: Attributes = frozenset()
_TRANSIENT: Attributes = frozenset({Attribute.TRANSIENT})
_TRANSIENT_CONFLICT: Attributes = frozenset({Attribute.TRANSIENT, Attribute.CONFLICT})
_PERMANENT: Attributes = frozenset({Attribute.PERMANENT})


class Code(IntEnum):
    """The predefined codes."""

    SUCCEEDED = 0
    CONTAINER_TRANSIENT = 200
    CONTAINER_TRANSIENT_CONFLICT = 201
    CONTAINER_PERMANENT = 210
    FRAMEWORK_EXTERNAL_DELETED = -100
    POD_EXTERNAL_DELETED = -101
    POD_LOCAL_CACHE_CREATION_TIMEOUT = -111
    POD_PENDING_DEADLINE_EXCEEDED = -112
    GANG_TIMEOUT = -113
    POD_CREATION_TRANSIENT_ERROR = -120
    POD_CREATION_PERMANENT_ERROR = -200
    POD_START_PERMANENT_ERROR = -201
    STOP_FRAMEWORK_REQUESTED = -210
    ACTIVE_DEADLINE_EXCEEDED = -211
    FRAMEWORK_ATTEMPT_COMPLETION = -220
    DELETE_TASK_REQUESTED = -230
    START_CONDITION_UNREACHABLE = -240
    POD_FAILED_WITHOUT_FAILED_CONTAINER = -300
    POD_CREATION_UNKNOWN_ERROR = -310
    STALLED = -320


@dataclass(frozen=True, slots=True)
class Meaning:
    """The phrase and the attributes of a code."""

    phrase: str
    attributes: Attributes


#: The meaning of every predefined code; a test checks that none is missing.
PREDEFINED: Mapping[int, Meaning] = {
    Code.SUCCEEDED: Meaning("Succeeded", _NONE),
    Code.CONTAINER_TRANSIENT: Meaning("ContainerTransientFailed", _TRANSIENT),
    Code.CONTAINER_TRANSIENT_CONFLICT: Meaning("ContainerTransientConflictFailed", _TRANSIENT_CONFLICT),
    Code.CONTAINER_PERMANENT: Meaning("ContainerPermanentFailed", _PERMANENT),
    Code.FRAMEWORK_EXTERNAL_DELETED: Meaning("FrameworkExternalDeleted", _TRANSIENT),
    Code.POD_EXTERNAL_DELETED: Meaning("PodExternalDeleted", _TRANSIENT),
    Code.POD_LOCAL_CACHE_CREATION_TIMEOUT: Meaning("PodLocalCacheCreationTimeout", _TRANSIENT),
    Code.POD_PENDING_DEADLINE_EXCEEDED: Meaning("PodPendingDeadlineExceeded", _TRANSIENT_CONFLICT),
    Code.GANG_TIMEOUT: Meaning("GangTimeout", _TRANSIENT_CONFLICT),
    Code.POD_CREATION_TRANSIENT_ERROR: Meaning("PodCreationTransientError", _TRANSIENT),
    Code.POD_CREATION_PERMANENT_ERROR: Meaning("PodCreationPermanentError", _PERMANENT),
    Code.POD_START_PERMANENT_ERROR: Meaning("PodStartPermanentError", _PERMANENT),
    Code.STOP_FRAMEWORK_REQUESTED: Meaning("StopFrameworkRequested", _PERMANENT),
    Code.ACTIVE_DEADLINE_EXCEEDED: Meaning("ActiveDeadlineExceeded", _PERMANENT),
    Code.FRAMEWORK_ATTEMPT_COMPLETION: Meaning("FrameworkAttemptCompletion", _PERMANENT),
    Code.DELETE_TASK_REQUESTED: Meaning("DeleteTaskRequested", _PERMANENT),
    Code.START_CONDITION_UNREACHABLE: Meaning("StartConditionUnreachable", _PERMANENT),
    Code.POD_FAILED_WITHOUT_FAILED_CONTAINER: Meaning("PodFailedWithoutFailedContainer", _NONE),
    Code.POD_CREATION_UNKNOWN_ERROR: Meaning("PodCreationUnknownError", _NONE),
    Code.STALLED: Meaning("Stalled", _NONE),
}

#: The phrase of an exit code that no rule matches.
UNRECOGNIZED = "ContainerUnrecognizedFailed"


def is_reserved(code: int) -> bool:
    """Whether configuration may not define *code*, since it is or may become predefined."""
    return -999 <= code <= 0 or 200 <= code <= 219


@dataclass(frozen=True, slots=True)
class ContainerTermination:
    """The termination of one container; *code* is also 0 if it has not terminated."""

    name: str
    code: int = 0
    reason: str = ""
    message: str = ""
    signal: int = 0
    #: Set while a pod's status is classified, and not stored in the Framework's status.
    terminated: bool = False
    finished: str = ""

    @property
    def finished_at(self) -> Time:
        """The time of its termination; 0 if unknown."""
        try:
            return parse_rfc3339(self.finished)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True)
class PodDetail:
    """The termination of a pod: init containers first, then the others."""

    reason: str = ""
    message: str = ""
    containers: tuple[ContainerTermination, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion of an attempt."""

    code: int
    phrase: str
    failed: bool
    attributes: Attributes = _NONE
    diagnostics: str = ""
    #: Set only if the attempt completed because its pod terminated.
    pod: PodDetail | None = None
    #: The failure rule that matched the pod, such as ``task.podFailureSpec[0]``; empty if none did.
    rule: str = ""

    @property
    def succeeded(self) -> bool:
        return not self.failed

    @property
    def summary(self) -> str:
        """``ContainerSigKillReceived (137)``."""
        return f"{self.phrase} ({self.code})"


@lru_cache(maxsize=512)
def interned(completion: Completion) -> Completion:
    """An equal Completion, shared by most callers: of 100,000 tasks many complete alike."""
    return completion


def completion_for(code: int, diagnostics: str, pod: PodDetail | None = None) -> Completion:
    """The Completion of a predefined code."""
    meaning = PREDEFINED[code]
    failed = code != Code.SUCCEEDED
    return interned(Completion(int(code), meaning.phrase, failed, meaning.attributes, diagnostics, pod))
