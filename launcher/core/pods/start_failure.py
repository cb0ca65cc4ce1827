"""Pods that can never start: what is wrong with them cannot change, or was not changed in time."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from launcher.core.timestamps import Time, parse_rfc3339

#: The condition with which the scheduler of local mode reports a request that no node could satisfy even if it were
#: empty. It is not known on a cluster, to which an autoscaler may add nodes.
EXCEEDS_CAPACITY: Final = "launcher.microsoft.com/ExceedsCapacity"

#: Seconds after which a pod that can never start fails its attempt.
_GRACE_SECONDS: Final = 10
#: The same for an object that another client may still create.
_MISSING_OBJECT_GRACE_SECONDS: Final = 120

_START_ERRORS: Final = frozenset({"StartError", "ContainerCannotRun"})
_COMMAND_ERROR: Final = re.compile(r"not found|no such file|permission denied|is a directory", re.IGNORECASE)
_MISSING_OBJECT: Final = re.compile(r"\b(secret|configmap)s? .*not found|couldn't find key", re.IGNORECASE)
_ROOT_FORBIDDEN: Final = re.compile(r"runAsNonRoot", re.IGNORECASE)
_NO_COMMAND: Final = re.compile(r"no command specified", re.IGNORECASE)
_CONTAINER_REASON: Final = re.compile(r"container (\S+): (\w*): (.*)", re.DOTALL)
_CAPACITY_REASON: Final = re.compile(r"it requests more than any node has \((.*)\)", re.DOTALL)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why a pod can never start, and the time at which its attempt fails if that has not changed."""

    reason: str
    fails_at: Time


class ContainerFailure(NamedTuple):
    """A container that can never start, with the reason and message of the kubelet."""

    container: str
    reason: str
    message: str


def container_failure(text: str) -> ContainerFailure | None:
    """Returns the container in a *text* with the reason of a StartFailure; None if it has none."""
    found = _CONTAINER_REASON.search(text)
    return ContainerFailure(*found.groups()) if found is not None else None


def capacity_failure(text: str) -> str | None:
    """Returns the scheduler's message in a *text* with the reason of a StartFailure; None if it has none."""
    found = _CAPACITY_REASON.search(text)
    return found[1] if found is not None else None


def start_failure(status: Json, created: Time) -> StartFailure | None:
    """Returns why a pod with this status, created at *created*, can never start; None if it may."""
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    scheduled, exceeds = conditions.get("PodScheduled", {}), conditions.get(EXCEEDS_CAPACITY)
    if exceeds is not None and scheduled.get("status") == "False":
        since = _time(exceeds.get("lastTransitionTime"), created)
        reason = f"it requests more than any node has ({exceeds.get('message')})"
        return StartFailure(reason, since + _GRACE_SECONDS)
    # A container starts after its pod was scheduled.
    since = _time(scheduled.get("lastTransitionTime"), created)
    for container in _waiting_containers(status):
        if (failure := _container_failure(container, since)) is not None:
            return failure
    return None


def _waiting_containers(status: Json) -> Iterator[Json]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            if (container.get("state") or {}).get("waiting"):
                yield container


def _container_failure(container: Json, since: Time) -> StartFailure | None:
    name, waiting = container.get("name"), container["state"]["waiting"]
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    text = f"container {name}: {reason}: {message}"
    last = (container.get("lastState") or {}).get("terminated") or {}
    if last.get("reason") in _START_ERRORS and _COMMAND_ERROR.search(last.get("message") or ""):
        return StartFailure(f"container {name}: {last['reason']}: {last['message']}", since + _GRACE_SECONDS)
    if _MISSING_OBJECT.search(message):
        return StartFailure(text, since + _MISSING_OBJECT_GRACE_SECONDS)
    if reason == "CreateContainerError" and _NO_COMMAND.search(message):
        # Neither the pod nor its image changes.
        return StartFailure(text, since)
    if _is_permanent(reason, message):
        return StartFailure(text, since + _GRACE_SECONDS)
    return None


def _is_permanent(reason: str, message: str) -> bool:
    """Whether the pod itself has to be changed. Other errors, such as those of a registry, may end."""
    return reason == "InvalidImageName" or (
        reason == "CreateContainerConfigError" and bool(_ROOT_FORBIDDEN.search(message))
    )


def _time(text: str | None, default: Time) -> Time:
    try:
        return parse_rfc3339(text) if text else default
    except ValueError:
        return default
