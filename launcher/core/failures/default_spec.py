"""
The built-in podFailureSpec.

It contains all rules of FrameworkController's default configuration, with the same codes and phrases. The first rule
that matches applies, so the order decides between several causes:

1. Reasons of the pod precede the exit codes of its containers, since containers that are killed with their pod exit
   with any code. The condition DisruptionTarget, which most of these pods also have, comes last.
2. Reasons of a container follow, the specific before the general: out of memory, not startable, unknown. An unknown
   container is reported with exit code 137, so it precedes that code.
3. Exit codes of signals come last.

Newer runtimes report StartError instead of ContainerCannotRun; both have the same code.
"""

from collections.abc import Mapping
from typing import Any

_NOTHING: tuple[str, ...] = ()
_TRANSIENT = ("Transient",)
_PERMANENT = ("Permanent",)

_NOT_FOUND = "(?i)not found|cannot find|no such"


def _rule(
    code: int, phrase: str, attributes: tuple[str, ...], *patterns: Mapping[str, Any]
) -> dict[str, Any]:
    kind = {"name": "Failed", "attributes": list(attributes)}
    return {"code": code, "phrase": phrase, "type": kind, "podPatterns": list(patterns)}


def _pod(reason: str) -> dict[str, Any]:
    """A pod with exactly that reason, case-insensitive."""
    return {"reasonRegex": f"(?i)^{reason}$"}


def _container(
    reason: str, minimum: int, maximum: int | None = None, message: str | None = None
) -> dict[str, Any]:
    """A container with exactly that reason, case-insensitive, and a matching exit code and message."""
    pattern = {
        "reasonRegex": f"(?i)^{reason}$",
        "messageRegex": message,
        "codeRange": {"min": minimum, "max": maximum},
    }
    return {"containers": [pattern]}


def _signal(code: int, phrase: str, attributes: tuple[str, ...]) -> dict[str, Any]:
    """A container with that exit code: 128 plus the signal."""
    return _rule(code, phrase, attributes, {"containers": [{"codeRange": {"min": code, "max": code}}]})


DEFAULT_SPEC: tuple[Mapping[str, Any], ...] = (
    _rule(-1000, "PodEvicted", _TRANSIENT, _pod("Evicted")),
    _rule(-1001, "PodNodeLost", _TRANSIENT, _pod("NodeLost")),
    _rule(-1002, "PodScheduledToInsufficientResourceNode", _TRANSIENT, _pod("OutOf.*")),
    _rule(-1003, "PodPreemptedForCriticalPod", _TRANSIENT, _pod("Preempting")),
    _rule(-1004, "PodDeadlineExceeded", _PERMANENT, _pod("DeadlineExceeded")),
    _rule(-1005, "PodNodeAdmissionForbidden", _PERMANENT, _pod("Forbidden")),
    _rule(
        -1006,
        "PodNodeAdmissionUnexpectedError",
        _TRANSIENT,
        _pod("UnexpectedAdmissionError"),
        _pod("UnknownReason"),
        _pod("InvalidNodeInfo"),
        _pod("UnexpectedPredicateFailureType"),
    ),
    # A pod that was terminated or not admitted by a node that shuts down.
    _rule(-1007, "PodNodeShutdown", _TRANSIENT, _pod("Terminated"), _pod("NodeShutdown")),
    _rule(-1008, "PodDisrupted", _TRANSIENT, {"conditions": [{"typeRegex": "^DisruptionTarget$"}]}),
    _rule(-1200, "ContainerDockerOOMKilled", _PERMANENT, _container("OOMKilled", 1)),
    _rule(-1201, "ContainerDockerCreationError", _NOTHING, _container("ContainerCannotRun", 125, 125)),
    _rule(
        -1202,
        "ContainerDockerStartCmdPermissionDenied",
        _PERMANENT,
        _container("ContainerCannotRun", 126, 126),
        _container("StartError", 128, 128, "(?i)permission denied"),
    ),
    _rule(
        -1203,
        "ContainerDockerStartCmdNotFound",
        _PERMANENT,
        _container("ContainerCannotRun", 127, 127),
        _container("ContainerCannotRun", 128, 128, _NOT_FOUND),
        _container("StartError", 128, 128, _NOT_FOUND),
    ),
    _rule(
        -1204,
        "ContainerDockerStartUnknownError",
        _NOTHING,
        _container("ContainerCannotRun", 128, 128, "(?s).*"),
        _container("StartError", 128, 128, "(?s).*"),
    ),
    # The node does not know how the container terminated.
    _rule(-1205, "ContainerStatusUnknown", _TRANSIENT, _container("ContainerStatusUnknown", 1)),
    _signal(130, "ContainerSigIntReceived", _TRANSIENT),
    _signal(131, "ContainerSigQuitReceived", _TRANSIENT),
    _signal(132, "ContainerSigIllReceived", _PERMANENT),
    _signal(134, "ContainerSigAbrtReceived", _NOTHING),
    _signal(135, "ContainerSigBusReceived", _PERMANENT),
    _signal(136, "ContainerSigFpeReceived", _PERMANENT),
    _signal(137, "ContainerSigKillReceived", _TRANSIENT),
    _signal(139, "ContainerSigSegvReceived", _PERMANENT),
    _signal(141, "ContainerSigPipeReceived", _PERMANENT),
    _signal(143, "ContainerSigTermReceived", _TRANSIENT),
)
