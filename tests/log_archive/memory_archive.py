"""A log archive in memory, for tests of its users."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from launcher.core.errors import NotFound
from launcher.log_archive.interface import ArchivedPod, LogKey


class MemoryArchive:
    """A ``LogArchive`` in memory."""

    def __init__(self) -> None:
        self.logs: dict[LogKey, bytes] = {}

    async def create(self, key: LogKey, text: bytes) -> bool:
        if key in self.logs:
            return False
        self.logs[key] = text
        return True

    async def exists(self, key: LogKey) -> bool:
        return key in self.logs

    async def read(self, key: LogKey) -> bytes:
        if key not in self.logs:
            raise NotFound("no archived log")
        return self.logs[key]

    async def runs(self, pod: ArchivedPod) -> Mapping[str, Sequence[int]]:
        runs: dict[str, list[int]] = defaultdict(list)
        for key in sorted(self.logs, key=lambda key: (key.container, key.restart)):
            if key.pod == pod:
                runs[key.container].append(key.restart)
        return dict(runs)
