"""Mounts of this machine: what is mounted where, one more, one less."""

import ctypes
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from launcher.core.errors import LauncherError


class MountFailed(LauncherError):
    """The volume cannot be made ready as things are; the same may work later."""


_NO_SUID, _NO_DEVICES = 2, 4
_DETACH = 2
_ESCAPE = re.compile(r"\\([0-7]{3})")


def mount_tmpfs(target: Path, size: int | None) -> None:
    """A file system in memory stands at *target*. Raises OSError when this user may not."""
    options = "mode=0777" + ("" if size is None else f",size={size}")
    failed = _libc().mount(b"tmpfs", os.fsencode(target), b"tmpfs", _NO_SUID | _NO_DEVICES, options.encode())
    if failed:
        raise _error(target)


def unmount(target: Path) -> None:
    """Nothing is mounted at *target* any more for those who come now. Raises OSError."""
    # Detached, because a container that is just ending may hold it a moment longer.
    if _libc().umount2(os.fsencode(target), _DETACH):
        raise _error(target)


def mounts_below(directory: Path) -> list[Path]:
    """Every mount point at or below *directory*, the innermost first."""
    root = os.path.realpath(directory)
    below = [point for point in _mount_points() if point == root or point.startswith(root.rstrip("/") + "/")]
    return [Path(point) for point in sorted(below, key=lambda point: point.count("/"), reverse=True)]


def is_mount_point(directory: Path) -> bool:
    return os.path.realpath(directory) in _mount_points()


def _mount_points() -> Iterator[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            yield _ESCAPE.sub(lambda code: chr(int(code[1], 8)), line.split(" ", 5)[4])


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error(target: Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(target))
