"""
How an attempt ended, as a value: the predefined completion codes, and completionStatus on the wire.

Codes below zero are the launcher's own words: -1xx was nobody's fault and may work another time, -2xx never
will, -3xx nobody knows. Codes above zero are exit codes of containers, three of which carry a meaning that the
program in the container and the launcher have agreed upon.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from sys import intern
from typing import Any


class Attribute(StrEnum):
    """What is known of a failure. A failure without any is one of which nothing is known."""

    TRANSIENT = "Transient"
    PERMANENT = "Permanent"
    CONFLICT = "Conflict"


Attributes = frozenset[Attribute]

_NONE: Attributes = frozenset()
_TRANSIENT: Attributes = frozenset({Attribute.TRANSIENT})
_TRANSIENT_CONFLICT: Attributes = frozenset({Attribute.TRANSIENT, Attribute.CONFLICT})
_PERMANENT: Attributes = frozenset({Attribute.PERMANENT})


class Code(IntEnum):
    """Every code that the launcher itself gives out."""

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
    STOP_FRAMEWORK_REQUESTED = -210
    ACTIVE_DEADLINE_EXCEEDED = -211
    FRAMEWORK_ATTEMPT_COMPLETION = -220
    DELETE_TASK_REQUESTED = -230
    START_CONDITION_UNREACHABLE = -240
    POD_FAILED_WITHOUT_FAILED_CONTAINER = -300
    POD_CREATION_UNKNOWN_ERROR = -310


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code stands for."""

    phrase: str
    attributes: Attributes


#: Every code has its meaning here; a test counts them.
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
    Code.STOP_FRAMEWORK_REQUESTED: Meaning("StopFrameworkRequested", _PERMANENT),
    Code.ACTIVE_DEADLINE_EXCEEDED: Meaning("ActiveDeadlineExceeded", _PERMANENT),
    Code.FRAMEWORK_ATTEMPT_COMPLETION: Meaning("FrameworkAttemptCompletion", _PERMANENT),
    Code.DELETE_TASK_REQUESTED: Meaning("DeleteTaskRequested", _PERMANENT),
    Code.START_CONDITION_UNREACHABLE: Meaning("StartConditionUnreachable", _PERMANENT),
    Code.POD_FAILED_WITHOUT_FAILED_CONTAINER: Meaning("PodFailedWithoutFailedContainer", _NONE),
    Code.POD_CREATION_UNKNOWN_ERROR: Meaning("PodCreationUnknownError", _NONE),
}

#: The phrase of every exit code that no rule knows.
UNRECOGNIZED = "ContainerUnrecognizedFailed"


def is_reserved(code: int) -> bool:
    """True for a code that configuration may not define: the launcher gives it out itself, or may one day."""
    return -999 <= code <= 0 or 200 <= code <= 219


@dataclass(frozen=True, slots=True)
class ContainerDetail:
    """How one container ended; *code* is 0 also for one that has not."""

    name: str
    code: int = 0
    reason: str = ""
    message: str = ""
    signal: int = 0


@dataclass(frozen=True, slots=True)
class PodDetail:
    """How a pod ended, in its own words: init containers first, then the others."""

    reason: str = ""
    message: str = ""
    containers: tuple[ContainerDetail, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """How an attempt ended."""

    code: int
    phrase: str
    failed: bool
    attributes: Attributes = _NONE
    diagnostics: str = ""
    #: Only where it was read from a pod that ended by itself.
    pod: PodDetail | None = None

    @property
    def succeeded(self) -> bool:
        return not self.failed

    @property
    def summary(self) -> str:
        """``ContainerSigKillReceived (137)``."""
        return f"{self.phrase} ({self.code})"


@lru_cache(maxsize=512)
def interned(completion: Completion) -> Completion:
    """An equal Completion, the same one for most who ask: of 100,000 tasks many end alike."""
    return completion


def completion_for(code: int, diagnostics: str, pod: PodDetail | None = None) -> Completion:
    """The Completion of one of the launcher's own codes."""
    meaning = PREDEFINED[code]
    failed = code != Code.SUCCEEDED
    return interned(Completion(int(code), meaning.phrase, failed, meaning.attributes, diagnostics, pod))


def pod_to_json(pod: PodDetail) -> dict[str, Any]:
    """The ``pod`` part of completionStatus; what is empty is left out, but for a container's name and code."""
    containers = [_container_to_json(container) for container in pod.containers]
    return _without_empty({"reason": pod.reason, "message": pod.message, "containers": containers})


def completion_to_json(completion: Completion) -> dict[str, Any]:
    """The completionStatus of an attempt."""
    status: dict[str, Any] = {
        "code": completion.code,
        "phrase": completion.phrase,
        "type": {
            "name": "Failed" if completion.failed else "Succeeded",
            "attributes": [attribute.value for attribute in Attribute if attribute in completion.attributes],
        },
        "diagnostics": completion.diagnostics,
    }
    if completion.pod is not None:
        status["pod"] = pod_to_json(completion.pod)
    return status


def completion_from_json(status: Mapping[str, Any]) -> Completion:
    """The Completion that a completionStatus tells of; keys and attributes unknown to us are passed over."""
    kind = status.get("type") or {}
    pod = status.get("pod")
    return interned(
        Completion(
            code=status["code"],
            phrase=intern(status.get("phrase") or ""),
            failed=kind.get("name") != "Succeeded",
            attributes=_attributes(tuple(kind.get("attributes") or ())),
            diagnostics=status.get("diagnostics") or "",
            pod=None if pod is None else _pod_from_json(pod),
        )
    )


@lru_cache(maxsize=64)
def _attributes(names: tuple[str, ...]) -> Attributes:
    return frozenset(attribute for attribute in Attribute if attribute in names)


def _container_to_json(container: ContainerDetail) -> dict[str, Any]:
    told = {"reason": container.reason, "message": container.message, "signal": container.signal}
    return {"name": container.name, **_without_empty(told), "code": container.code}


def _pod_from_json(pod: Mapping[str, Any]) -> PodDetail:
    return PodDetail(
        reason=intern(pod.get("reason") or ""),
        message=pod.get("message") or "",
        containers=tuple(
            ContainerDetail(
                name=intern(container.get("name") or ""),
                code=container.get("code") or 0,
                reason=intern(container.get("reason") or ""),
                message=container.get("message") or "",
                signal=container.get("signal") or 0,
            )
            for container in pod.get("containers") or ()
        ),
    )


def _without_empty(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
