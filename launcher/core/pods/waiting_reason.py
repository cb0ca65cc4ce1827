"""
What a task waits for, in the words of its finding, as far as its message and its pod template show it.

The message of a task has the words of the cluster: ``Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.`` The
message of its Framework, which is read first, has those of the diagnosis: ``no node has 8 cpu free``.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from launcher.core import causes
from launcher.core.causes import Reason
from launcher.core.json_access import as_list, as_object, text
from launcher.core.pods.creation_reason import creation_reason, is_creation_error
from launcher.core.pods.image_reason import IMAGE_REASONS, image_reason
from launcher.core.pods.unscheduled_reason import SCHEDULING_GATED, unscheduled_reason
from launcher.core.pods.volume_reason import is_reference_error, volume_reason

Json = Mapping[str, Any]

#: Waiting reasons of a container that is being created.
CREATING_REASONS: Final = frozenset({"ContainerCreating", "PodInitializing"})
_SCHEDULING_REASONS: Final = frozenset({"Unschedulable", SCHEDULING_GATED})
_CREATE_ERRORS: Final = frozenset({"CreateContainerError", "RunContainerError"})
#: The kubelet appends the pod, which differs between tasks.
_POD_SUFFIX: Final = re.compile(r" \(pod: .*\)$")
#: The runtime's id of a container, which differs between its attempts.
_CONTAINER_ID: Final = re.compile(r'"?\b[0-9a-f]{64}\b"? ?')


def waiting_clause(message: str, spec: Json) -> str:
    """The *message* of a task that waits, as a clause; *spec* is that of its pod template."""
    if is_creation_error(message):
        return creation_reason(message).text
    reason, _, details = message.partition(": ")
    if reason in _SCHEDULING_REASONS:
        return unscheduled_reason(reason, details, spec).text
    found = container_reason(reason, details, only_container(spec))
    return found.text if found is not None else message


def only_container(spec: Json) -> Json:
    """The container of a pod with one; empty for others, since a message does not name the container."""
    containers = [*as_list(spec.get("initContainers")), *as_list(spec.get("containers"))]
    return as_object(containers[0]) if len(containers) == 1 else {}


def container_reason(reason: str, message: str, container: Json) -> Reason | None:
    """The reason of a container that waits with that *reason* and *message*; None if they need no other words."""
    if reason in IMAGE_REASONS:
        return image_reason(reason, message, text(container.get("image")) or _image_in(message))
    if (reason in CREATING_REASONS and message) or is_reference_error(message):
        return volume_reason(message)
    if reason == "CreateContainerConfigError":
        details = _POD_SUFFIX.sub("", message) or reason
        return Reason(causes.CONTAINER_CONFIG, f"{_subject(container)} cannot be configured: {details}")
    return create_error(reason, message, container) if reason in _CREATE_ERRORS else None


def create_error(reason: str, message: str, container: Json) -> Reason:
    """The reason of a container that the runtime cannot create or start."""
    details = _CONTAINER_ID.sub("", message) or reason
    return Reason(causes.CONTAINER_CREATE, f"{_subject(container)} cannot be created: {details}")


def _subject(container: Json) -> str:
    name = text(container.get("name"))
    return f"container {name}" if name else "a container"


def _image_in(message: str) -> str:
    """The image that the kubelet or the runtime names; empty if there is none."""
    found = re.search(r'image "([^"]+)"', message)
    return found[1] if found is not None else "of a container"


def restart_clause(name: str, code: int, reason: str = "") -> str:
    """A container that failed and is restarted, without the number of its restarts, which changes often."""
    known = f" ({reason})" if reason not in ("", "Error") else ""
    return f"container {name} failed and is restarted: exit code {code}{known}"
