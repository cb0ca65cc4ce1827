"""What kube-apiserver writes down of every request, read while it grows: who asked for what, and when."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

#: By which the requests of the simulated nodes are known.
_NODES = "kwok"


@dataclass(slots=True)
class Trail:
    """
    The requests about one namespace from now on.

    Times are those of kube-apiserver's clock: a request that makes something counts from when it was received, one that
    tells of a pod from when it was answered.
    """

    path: Path
    namespace: str
    #: User agents, by the end or the beginning of which the controller that is measured is known.
    controller: str
    #: When the first object was submitted by somebody else than the controller.
    began: float | None = None
    #: When each creation of a pod was answered.
    created: list[float] = field(default_factory=list)
    #: When each pod was told to run, and to have ended.
    running: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    #: When the controller last wrote a status.
    saved: float = 0.0
    #: What the controller has asked for: verb, resource, subresource and how that was answered.
    asked: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    _read: int = 0

    def __post_init__(self) -> None:
        self._read = self.path.stat().st_size

    def read(self) -> None:
        """Take in what has been written since."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        of_interest = f'"namespace":"{self.namespace}"'.encode()
        for line in whole.splitlines():
            if of_interest in line:
                self._take(orjson.loads(line))

    @property
    def requests(self) -> int:
        """How many the controller has made."""
        return self.asked.total()

    def _take(self, event: Any) -> None:
        if event["stage"] != "ResponseComplete" or event["verb"] in {"watch", "list"}:
            return
        target, status = event["objectRef"], event.get("responseStatus", {}).get("code", 0)
        kind = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        agent, at = event.get("userAgent", ""), _seconds(event["stageTimestamp"])
        if event["verb"] == "create" and kind in {"pods", "jobs", "frameworks"} and self.began is None:
            self.began = _seconds(event["requestReceivedTimestamp"])
        if self.controller in agent:
            self.asked[event["verb"], kind, status] += 1
            if kind.endswith("/status"):
                self.saved = at
        if (event["verb"], kind, status) == ("create", "pods", 201):
            self.created.append(at)
        if agent.startswith(_NODES) and (event["verb"], kind, status) == ("patch", "pods/status", 200):
            phases = self.ended if target["name"] in self.running else self.running
            phases[target["name"]] = at


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def told(asked: Iterable[tuple[tuple[str, str, int], int]]) -> str:
    """Requests for people, the most frequent first."""
    return ", ".join(f"{count} {verb} {kind} {status}" for (verb, kind, status), count in asked)
