"""
The podFailureSpec that holds when the admin gives none.

Codes, phrases and order are those of FrameworkController's own table, as far as that goes. The first rule that
fits wins, so the order says which of several causes counts:

1. What the node says of the whole pod comes before the exit codes of its containers, because containers that
   are killed along with their pod exit with any code. Among these the particular reasons come first; the
   condition DisruptionTarget, which most of them also set, comes last and catches the rest.
2. Then what the runtime says of a container, the sure before the vague: out of memory, not startable, unknown.
   An unknown container is reported with exit code 137, so it has to come before that.
3. Then bare exit codes of signals.

Newer runtimes report as StartError what was once ContainerCannotRun; it is the same cause, so it has the same
code.
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
    """A pod of that very reason, in whatever case."""
    return {"reasonRegex": f"(?i)^{reason}$"}


def _container(
    reason: str, least: int, most: int | None = None, message: str | None = None
) -> dict[str, Any]:
    """A container of that very reason, in whatever case, with such an exit code and message."""
    pattern = {
        "reasonRegex": f"(?i)^{reason}$",
        "messageRegex": message,
        "codeRange": {"min": least, "max": most},
    }
    return {"containers": [pattern]}


def _signal(code: int, phrase: str, attributes: tuple[str, ...]) -> dict[str, Any]:
    """A container with that very exit code: 128 and the signal."""
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
    # A pod that a node ended as it went down, or did not let in any more.
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
    # The node can no longer tell how the container ended.
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
