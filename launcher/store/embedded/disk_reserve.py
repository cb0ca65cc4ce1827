"""
Room on the disk of a store for what must work on a full one: deletions and the status writes that go with them.

Nothing new is stored while the disk is almost full. Other programs may fill it all the same: a file beside the database
holds some blocks, and is emptied then, so that the database gets them.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path

from launcher.core.errors import DiskFull, Unavailable

log = logging.getLogger(__name__)

#: What the file holds, and what has to be free beside it; of a small disk only a part.
_RESERVE_BYTES, _RESERVE_PART = 4 * 1024 * 1024, 8
_LEAST_FREE_BYTES, _LEAST_FREE_PART = 16 * 1024 * 1024, 20


class DiskReserve:
    """The reserve of one database. Its methods may be called by any thread."""

    def __init__(self, database: Path) -> None:
        """Empties a file from before when the disk is almost full, since the database could not be opened."""
        self._directory, self._path = database.parent, database.with_suffix(".reserve")
        self._low = self._read_only = False
        self._filled = self._held_bytes() > 0
        if self._filled and self.low():
            self.release()

    def low(self) -> bool:
        """Whether the disk is almost full. One system call, most of the time."""
        try:
            disk = os.statvfs(self._directory)
        except OSError:
            return self._low  # the directory is gone, which the store reports
        size, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        room = free - min(_LEAST_FREE_BYTES, size // _LEAST_FREE_PART)
        self._read_only = bool(disk.f_flag & os.ST_RDONLY)
        if self._filled:
            self._report(low=room < 0)
        else:
            reserve = min(_RESERVE_BYTES, size // _RESERVE_PART)
            self._report(low=room + self._held_bytes() < reserve)
            if not self._low:
                self._fill(reserve)
        return self._low

    def check(self) -> None:
        """Raises Unavailable when nothing new may be stored."""
        low = self.low()
        if self._read_only:
            raise Unavailable(f"the file system of {self._directory} is read-only: nothing can be stored")
        if low:
            raise DiskFull(
                f"the disk of {self._directory} is almost full: nothing new can be stored until objects are deleted, "
                "or space is freed"
            )

    def release(self) -> bool:
        """Empties the file. Whether that made room."""
        if not self._filled:
            return False
        try:
            os.truncate(self._path, 0)
        except OSError:
            return False
        self._filled = False
        return True

    def _fill(self, size: int) -> None:
        # Where blocks cannot be allocated, the free space alone is the reserve.
        with suppress(OSError), open(self._path, "ab", opener=_private) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            self._filled = True

    def _held_bytes(self) -> int:
        try:
            return os.stat(self._path).st_blocks * 512
        except OSError:
            return 0

    def _report(self, *, low: bool) -> None:
        if low and not self._low:
            log.error("the disk is almost full: nothing new is stored", extra={"path": str(self._directory)})
        elif self._low and not low:
            log.warning("the disk has room again", extra={"path": str(self._directory)})
        self._low = low


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
