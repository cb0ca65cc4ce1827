"""Logs of the pods of a simulated cluster, and a log archive with injected faults."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

from launcher.core.errors import Forbidden, NotFound, Unavailable
from launcher.core.pods.observed_pod import has_terminated
from launcher.log_archive.interface import LogKey
from launcher.store.interface import PODS, Object
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults
from tests.log_archive.memory_archive import MemoryArchive

_STAMP = b"2026-01-01T00:00:00.000000000Z "
#: How often a followed log checks whether its pod has ended.
_POLL_SECONDS = 0.1


def log_line(text: str) -> bytes:
    return _STAMP + text.encode() + b"\n"


@dataclass(frozen=True)
class SimulatedLogRequest:
    """A request for a log."""

    pod: str
    container: str
    previous: bool = False
    follow: bool = False


class SimulatedLogs:
    """A ``PodLogSource``. Every log has the uid of its pod, and a second line when the pod ends."""

    def __init__(self, store: SimulatedStore, faults: Faults, random: Random) -> None:
        self._store, self._faults, self._random = store, faults, random
        self.requests: list[SimulatedLogRequest] = []

    @asynccontextmanager
    async def open_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, follow: bool, tail_lines: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(SimulatedLogRequest(pod, container, previous, follow))
        await asyncio.sleep(0.01)
        if self._faults.occurs("log_errors", self._random):
            raise Unavailable("simulated: the kubelet does not respond")
        live = await self._store.get(PODS, namespace, pod)
        yield self._chunks(live, follow)

    async def _chunks(self, pod: Object, follow: bool) -> AsyncIterator[bytes]:
        yield log_line(pod["metadata"]["uid"])
        live: Object | None = pod
        while follow and live is not None and not has_terminated(live):
            if self._faults.occurs("log_errors", self._random):
                raise Unavailable("simulated: the connection was lost")
            await asyncio.sleep(_POLL_SECONDS)
            live = await self._live(pod)
        yield log_line("the end")

    async def _live(self, pod: Object) -> Object | None:
        meta = pod["metadata"]
        try:
            live = await self._store.get(PODS, meta["namespace"], meta["name"])
        except NotFound:
            return None
        return live if live["metadata"]["uid"] == meta["uid"] else None


class FaultyArchive(MemoryArchive):
    """An archive that is slow, fails or hangs, and whose responses may be lost."""

    def __init__(self, faults: Faults, random: Random) -> None:
        super().__init__()
        self.faults, self._random = faults, random
        #: Writes of each log, including those that changed nothing.
        self.writes: Counter[LogKey] = Counter()

    async def create(self, key: LogKey, text: bytes) -> bool:
        await self._respond()
        self.writes[key] += 1
        stored = await super().create(key, text)
        if self.faults.occurs("archive_lost_responses", self._random):
            raise Unavailable("simulated: connection lost")
        return stored

    async def exists(self, key: LogKey) -> bool:
        await self._respond()
        return await super().exists(key)

    async def _respond(self) -> None:
        await asyncio.sleep(0.01)
        if self.faults.occurs("archive_hangs", self._random):
            await asyncio.Event().wait()
        if self.faults.occurs("archive_slow", self._random):
            await asyncio.sleep(self._random.expovariate(1 / 20))
        if self.faults.occurs("archive_errors", self._random):
            raise self._random.choice((Unavailable("simulated: 503"), Forbidden("simulated: 403")))
