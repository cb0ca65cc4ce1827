"""How a pod ended, as its status tells it, cut to a size at which any number of them can be read and kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

from launcher.core.completion_codes import ContainerDetail, PodDetail
from launcher.core.timestamps import Time, parse_rfc3339

#: What patterns see of the messages of one container, and of all containers of a pod together, in characters.
_CONTAINER_LIMIT = 4 * 1024
_POD_LIMIT = 12 * 1024
#: What is kept of one message, in bytes.
KEPT = 2 * 1024
#: Reasons and names are words; nobody needs more of them.
_WORD_LIMIT = 256


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """One container; all but its name is empty unless it has *terminated*."""

    name: str
    terminated: bool = False
    code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished: str = ""

    @property
    def finished_at(self) -> Time:
        """When it ended; long ago if that is not told."""
        try:
            return parse_rfc3339(self.finished)
        except ValueError:
            return 0


@dataclass(frozen=True, slots=True)
class PodTermination:
    """A pod in its last phase: init containers first, then the others."""

    name: str
    reason: str
    message: str
    containers: tuple[ContainerEnd, ...]
    #: Those that hold, as they stand in the status.
    conditions: tuple[Mapping[str, Any], ...]

    @property
    def detail(self) -> PodDetail:
        """What is worth keeping."""
        return PodDetail(
            self.reason,
            beginning(self.message),
            tuple(
                ContainerDetail(end.name, end.code, end.reason, ending(end.message), end.signal)
                for end in self.containers
            ),
        )


def pod_end(status: Mapping[str, Any], name: str) -> PodTermination:
    """The pod of that name, as its ``status`` says that it ended. What is missing or null is empty."""
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    # The share that a kubelet gives each container, so that nothing is cut twice.
    limit = min(_CONTAINER_LIMIT, _POD_LIMIT // (len(containers) or 1))
    return PodTermination(
        name,
        _word(status.get("reason")),
        (status.get("message") or "")[:_CONTAINER_LIMIT],
        tuple([_container_end(container, limit) for container in containers]),
        tuple([one for one in status.get("conditions") or () if one.get("status") == "True"]),
    )


def beginning(text: str) -> str:
    """The first part of *text* that may be kept: whoever explains something begins with what matters."""
    if text.isascii() and len(text) <= KEPT:
        return text
    return text.encode("utf-8", "replace")[:KEPT].decode("utf-8", "ignore")


def ending(text: str) -> str:
    """The last part of *text* that may be kept: a log ends with what matters."""
    if text.isascii() and len(text) <= KEPT:
        return text
    return text.encode("utf-8", "replace")[-KEPT:].decode("utf-8", "ignore")


def _container_end(container: Mapping[str, Any], limit: int) -> ContainerEnd:
    name = _word(container.get("name"))
    terminated = (container.get("state") or {}).get("terminated")
    if terminated is None:
        return ContainerEnd(name)
    return ContainerEnd(
        name,
        True,
        terminated.get("exitCode") or 0,
        terminated.get("signal") or 0,
        _word(terminated.get("reason")),
        (terminated.get("message") or "")[-limit:],
        terminated.get("finishedAt") or "",
    )


def _word(text: str | None) -> str:
    # Equal words are kept once: of 100,000 pods most use the same ten.
    return intern(text[:_WORD_LIMIT]) if text else ""
