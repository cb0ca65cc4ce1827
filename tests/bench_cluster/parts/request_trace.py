"""The requests of one controller, read from the audit log of kube-apiserver while it grows."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

#: The user agent of the simulated nodes.
_NODES = "kwok"


@dataclass(slots=True)
class RequestTrace:
    """
    The requests in one namespace since this object was created.

    Times are those of kube-apiserver's clock: a request that creates an object counts from its arrival, one that
    reports on a pod from its response.
    """

    path: Path
    namespace: str
    #: A part of the user agent of the measured controller.
    controller: str
    #: The time of the first submission.
    start: float | None = None
    #: The time of the response to each creation of a pod.
    created: list[float] = field(default_factory=list)
    #: The time at which each pod was reported as running, and as ended.
    running: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    #: The time of the controller's last status write.
    saved: float = 0.0
    #: The requests of the controller by verb, resource with subresource, and status.
    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    _read: int = 0

    def __post_init__(self) -> None:
        self._read = self.path.stat().st_size

    def read(self) -> None:
        """Counts the requests since the last call."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._read += len(complete)
        namespace_field = f'"namespace":"{self.namespace}"'.encode()
        for line in complete.splitlines():
            if namespace_field in line:
                self._count(orjson.loads(line))

    @property
    def requests(self) -> int:
        """The number of requests of the controller."""
        return self.counts.total()

    def _count(self, event: Any) -> None:
        if event["stage"] != "ResponseComplete" or event["verb"] in {"watch", "list"}:
            return
        target, status = event["objectRef"], event.get("responseStatus", {}).get("code", 0)
        kind = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        agent, at = event.get("userAgent", ""), _seconds(event["stageTimestamp"])
        if event["verb"] == "create" and kind in {"pods", "jobs", "frameworks"} and self.start is None:
            self.start = _seconds(event["requestReceivedTimestamp"])
        if self.controller in agent:
            self.counts[event["verb"], kind, status] += 1
            if kind.endswith("/status"):
                self.saved = at
        if (event["verb"], kind, status) == ("create", "pods", 201):
            self.created.append(at)
        if agent.startswith(_NODES) and (event["verb"], kind, status) == ("patch", "pods/status", 200):
            phases = self.ended if target["name"] in self.running else self.running
            phases[target["name"]] = at


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def summary(counts: Iterable[tuple[tuple[str, str, int], int]]) -> str:
    """The counts as text."""
    return ", ".join(f"{count} {verb} {kind} {status}" for (verb, kind, status), count in counts)
