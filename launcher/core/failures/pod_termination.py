"""The termination of a pod, parsed from its status and cut to a bounded size."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from launcher.core.completion_codes import ContainerTermination, PodDetail

#: Characters of messages that patterns see: of one container, and of all containers of a pod.
_MAX_CONTAINER_MESSAGE_LENGTH = 4 * 1024
_MAX_POD_MESSAGES_LENGTH = 12 * 1024
#: Bytes of a message that are stored.
MAX_MESSAGE_BYTES = 2 * 1024
#: Characters of reasons and names.
_MAX_NAME_LENGTH = 256


@dataclass(frozen=True, slots=True)
class PodTermination:
    """A pod in a terminal phase; init containers precede the others."""

    name: str
    reason: str
    message: str
    containers: tuple[ContainerTermination, ...]
    #: Conditions with status True.
    conditions: tuple[Mapping[str, Any], ...]

    @property
    def detail(self) -> PodDetail:
        """The part that is stored in the status."""
        return PodDetail(
            self.reason,
            stored_start(self.message),
            tuple(
                ContainerTermination(
                    container.name,
                    container.code,
                    container.reason,
                    stored_end(container.message),
                    container.signal,
                )
                for container in self.containers
            ),
        )


def pod_termination(status: Mapping[str, Any], name: str) -> PodTermination:
    """Parses the ``status`` of a terminated pod; missing or null fields are empty."""
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    # The same share per container as in the kubelet, so that nothing is cut twice.
    limit = min(_MAX_CONTAINER_MESSAGE_LENGTH, _MAX_POD_MESSAGES_LENGTH // (len(containers) or 1))
    return PodTermination(
        name,
        _interned(status.get("reason")),
        (status.get("message") or "")[:_MAX_CONTAINER_MESSAGE_LENGTH],
        tuple([_container_termination(container, limit) for container in containers]),
        tuple(
            [condition for condition in status.get("conditions") or () if condition.get("status") == "True"]
        ),
    )


def stored_start(text: str) -> str:
    """The start of *text* that is stored: explanations start with what matters."""
    if text.isascii() and len(text) <= MAX_MESSAGE_BYTES:
        return text
    return text.encode("utf-8", "replace")[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")


def stored_end(text: str) -> str:
    """The end of *text* that is stored: logs end with what matters."""
    if text.isascii() and len(text) <= MAX_MESSAGE_BYTES:
        return text
    return text.encode("utf-8", "replace")[-MAX_MESSAGE_BYTES:].decode("utf-8", "ignore")


def _container_termination(container: Mapping[str, Any], limit: int) -> ContainerTermination:
    name = _interned(container.get("name"))
    terminated = (container.get("state") or {}).get("terminated")
    if terminated is None:
        return ContainerTermination(name)
    return ContainerTermination(
        name,
        terminated.get("exitCode") or 0,
        _interned(terminated.get("reason")),
        (terminated.get("message") or "")[-limit:],
        terminated.get("signal") or 0,
        True,
        terminated.get("finishedAt") or "",
    )


def _interned(text: str | None) -> str:
    # Interned: 100,000 pods use few distinct names and reasons.
    return intern(text[:_MAX_NAME_LENGTH]) if text else ""
