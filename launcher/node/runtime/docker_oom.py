"""
Observes that the kernel killed processes of a container because its memory ran out.

Podman before 5 does not report it. The cgroup's counter is read when the container's first process exits, before the
engine removes the cgroup.
"""

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class OomMonitor:
    """The number of killed processes of one container."""

    def __init__(self) -> None:
        self._pidfd: int | None = None
        self._file: Path | None = None
        self._kills = 0

    def open(self, pid: int) -> None:
        """Observes the container whose first process is *pid*, unless it is observed already."""
        if self._pidfd is not None or pid <= 0:
            return
        with suppress(OSError):  # it has exited, or belongs to another user
            self._file = _counter_file(Path(f"/proc/{pid}/cgroup").read_text())
            self._pidfd = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)

    def kills(self) -> int:
        self._read()
        return self._kills

    def close(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _on_exit(self) -> None:
        assert self._pidfd is not None
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._read()

    def _read(self) -> None:
        with suppress(OSError):  # the cgroup is removed
            if self._file is not None and (match := _COUNT.search(self._file.read_text())):
                self._kills = max(self._kills, int(match[1]))


def _counter_file(cgroups: str) -> Path | None:
    """The file with the counter, by the content of ``/proc/PID/cgroup``; of version 1 or 2."""
    unified = None
    for line in cgroups.splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _CGROUPS / "memory" / path.lstrip("/") / "memory.oom_control"
        if number == "0":
            unified = _CGROUPS / path.lstrip("/") / "memory.events"
    return unified
