"""
Disk space reserved for writes that must work on a full disk: deletions and their status writes.

New objects are rejected while the disk is almost full. Because other programs may still fill it, a file next to the
database holds some blocks, which are then released to the database.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path

from launcher.core.errors import DiskFull, Unavailable

log = logging.getLogger(__name__)

#: Size of the reserve file, and minimum free space besides it; on a small disk only a fraction of it.
_RESERVE_BYTES, _RESERVE_DIVISOR = 4 * 1024 * 1024, 8
_MIN_FREE_BYTES, _MIN_FREE_DIVISOR = 16 * 1024 * 1024, 20


class DiskReserve:
    """The reserve of one database. Thread-safe."""

    def __init__(self, database: Path) -> None:
        """Releases an existing reserve if the disk is almost full, so that the database can be opened."""
        self._directory, self._path = database.parent, database.with_suffix(".reserve")
        self._low = self._read_only = False
        self._filled = self._allocated_bytes() > 0
        if self._filled and self.low():
            self.release()

    def low(self) -> bool:
        """Whether the disk is almost full. Usually one system call."""
        try:
            disk = os.statvfs(self._directory)
        except OSError:
            return self._low  # the directory was removed, which the store reports
        size, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        surplus = free - min(_MIN_FREE_BYTES, size // _MIN_FREE_DIVISOR)
        self._read_only = bool(disk.f_flag & os.ST_RDONLY)
        if self._filled:
            self._report(low=surplus < 0)
        else:
            reserve = min(_RESERVE_BYTES, size // _RESERVE_DIVISOR)
            self._report(low=surplus + self._allocated_bytes() < reserve)
            if not self._low:
                self._fill(reserve)
        return self._low

    def check(self) -> None:
        """Raises Unavailable if no new objects may be stored."""
        low = self.low()
        if self._read_only:
            raise Unavailable(f"the file system of {self._directory} is read-only: nothing can be stored")
        if low:
            raise DiskFull(
                f"the disk of {self._directory} is almost full: nothing new can be stored until objects are deleted, "
                "or space is freed"
            )

    def release(self) -> bool:
        """Releases the reserve. Returns whether blocks were freed."""
        if not self._filled:
            return False
        try:
            os.truncate(self._path, 0)
        except OSError:
            return False
        self._filled = False
        return True

    def _fill(self, size: int) -> None:
        # If blocks cannot be allocated, only the free space serves as reserve.
        with suppress(OSError), open(self._path, "ab", opener=_private) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            self._filled = True

    def _allocated_bytes(self) -> int:
        try:
            return os.stat(self._path).st_blocks * 512
        except OSError:
            return 0

    def _report(self, *, low: bool) -> None:
        if low and not self._low:
            log.error("the disk is almost full: nothing new is stored", extra={"path": str(self._directory)})
        elif self._low and not low:
            log.warning("disk space is available again", extra={"path": str(self._directory)})
        self._low = low


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
