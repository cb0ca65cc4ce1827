"""Container logs in memory, as the API serves them."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from launcher.core.errors import BadRequest, NotFound
from launcher.core.pods.log_options import PodLogOptions


class InMemoryLogs:
    """The logs of containers: lines with their times, and whether the container has ended."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
        self._ended: set[tuple[str, str, str]] = set()
        self._changed = asyncio.Condition()
        #: The number of reads that have waited for more lines.
        self.readers = 0

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        return [key[2] for key in self._lines if key[0] == pod and uid in (None, key[1])]

    def last_written(self, namespace: str, pod: str, uid: str) -> float | None:
        times = [lines[-1][0] for key, lines in self._lines.items() if key[:2] == (pod, uid) and lines]
        return max(times, default=None)

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, options: PodLogOptions
    ) -> AsyncIterator[bytes]:
        found = [key for key in self._lines if (key[0], key[2]) == (pod, container) and uid in (None, key[1])]
        if not found:
            raise NotFound(f"{pod} has no log")
        if options.previous:
            raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
        key = found[-1]
        start = sum(written < (options.since or 0) for written, _ in self._lines[key])
        if options.tail_lines is not None:
            start = max(start, len(self._lines[key]) - options.tail_lines)
        while True:
            for written, text in self._lines[key][start:]:
                yield _line(written, text, options.timestamps)
            start = max(start, len(self._lines[key]))
            if not options.follow or key in self._ended:
                return
            async with self._changed:
                self.readers += 1
                await self._changed.wait()

    async def write(
        self, pod: str, uid: str, container: str, *lines: str, ended: bool = False, seconds_ago: float = 0
    ) -> None:
        async with self._changed:
            # As on a node, lines that are written at once have the same time.
            key, written = (pod, uid, container), time.time() - seconds_ago
            self._lines.setdefault(key, []).extend((written, line) for line in lines)
            if ended:
                self._ended.add(key)
            self._changed.notify_all()


def _line(written: float, text: str, timestamps: bool) -> bytes:
    stamp = datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ") if timestamps else ""
    return f"{stamp}{text}\n".encode()
