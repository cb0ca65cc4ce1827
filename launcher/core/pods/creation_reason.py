"""Why a pod was not created, from the error of the API server: the cause and a clause."""

import re
from collections.abc import Sequence
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause, Reason

#: The names of pods in messages, which differ between tasks with the same cause.
_POD_NAME: Final = re.compile(r'pods? "[^"]*"')
_RETRYING, _REJECTED = "Error creating pod, retrying: ", "Pod creation rejected: "
_OTHER_OWNER: Final = "already exists and belongs to another owner"

#: What kube-apiserver and its admission plugins report; the first that matches.
_PATTERNS: Sequence[tuple[re.Pattern[str], Cause, str]] = (
    (
        re.compile(r"exceeded quota: (?P<detail>.*)|failed quota: (?P<other>.*)"),
        causes.QUOTA,
        "resource quota exceeded: {detail}",
    ),
    (
        re.compile(
            r"(?P<detail>(maximum|minimum) \S+ (usage per|storage usage).*|\S+ max limit to request ratio.*)"
        ),
        causes.LIMIT_RANGE,
        "a LimitRange of the namespace rejects the pod: {detail}",
    ),
    (
        re.compile(r"violates PodSecurity (?P<detail>.*)"),
        causes.POD_SECURITY,
        "PodSecurity rejects the pod: {detail}",
    ),
    (
        re.compile(r"failed calling webhook (?P<detail>.*)"),
        causes.WEBHOOK_UNREACHABLE,
        "an admission webhook cannot be called: {detail}",
    ),
    (
        re.compile(r"(?P<detail>(admission webhook \S+|ValidatingAdmissionPolicy .*) denied.*)"),
        causes.WEBHOOK_DENIED,
        "{detail}",
    ),
    (
        re.compile(r"error looking up service account (?P<detail>[^\s:]+)"),
        causes.SERVICE_ACCOUNT,
        "service account {detail} does not exist",
    ),
    (
        re.compile(r"no PriorityClass with name (?P<detail>\S+)"),
        causes.PRIORITY_CLASS,
        "priority class {detail} does not exist",
    ),
    (
        re.compile(r"(?P<detail>is being terminated)"),
        causes.NAMESPACE_TERMINATING,
        "the namespace is being deleted, so no pod can be created in it",
    ),
    (
        re.compile(_OTHER_OWNER),
        causes.NAME_TAKEN,
        "a pod of another owner has the name of the task's pod",
    ),
    (
        re.compile(r"(?i)too many requests|429|please try again later"),
        causes.THROTTLED,
        "the API server limits the launcher's requests",
    ),
    (
        re.compile(r"(?i)(?P<detail>is invalid.*|.*(invalid|required|unsupported|duplicate) value.*)"),
        causes.INVALID_POD,
        "the API server rejects the pod: {detail}",
    ),
    (
        re.compile(r"(?i)(?P<detail>forbidden.*)"),
        causes.POD_FORBIDDEN,
        "the API server rejects the pod: {detail}",
    ),
    (
        re.compile(
            r"(?i)cannot (connect|reach|be reached)|connection|was lost|no response|unavailable|timed? ?out"
        ),
        causes.API_UNAVAILABLE,
        "the launcher cannot reach the API server",
    ),
)


def creation_delayed(error: object) -> str:
    """The message of a task whose pod could not be created yet."""
    return f"{_RETRYING}{error}"


def name_taken(pod: str) -> str:
    """The message of a task whose pod has the name of another one."""
    return f"Waiting: pod {pod} {_OTHER_OWNER}."


def is_creation_error(message: str) -> bool:
    """Whether the message of a task reports a failed creation of its pod."""
    return message.startswith((_RETRYING, _REJECTED)) or _OTHER_OWNER in message


def creation_reason(message: str) -> Reason:
    """The reason of a pod whose creation failed with *message*."""
    plain = _POD_NAME.sub("pods", message).removeprefix(_RETRYING).removeprefix(_REJECTED)
    for pattern, cause, what in _PATTERNS:
        if (found := pattern.search(plain)) is not None:
            detail = next((value for value in found.groupdict().values() if value), "")
            return Reason(cause, what.format(detail=detail))
    detail = plain.rpartition("Error creating pod for task ")[2]
    return Reason(causes.POD_FORBIDDEN, f"the pod cannot be created: {detail}")
