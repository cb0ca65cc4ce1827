"""Mounts and unmounts filesystems of this machine."""

import ctypes
import os
from functools import cache
from pathlib import Path

from launcher.core.errors import LauncherError
from launcher.node.shim import linux


class MountFailed(LauncherError):
    """The volume cannot be prepared now; a retry may succeed."""


_NO_SUID, _NO_DEVICES = 2, 4
_DETACH = 2


def mount_tmpfs(target: Path, size: int | None) -> None:
    """Mounts a tmpfs at *target*. Raises OSError without the privilege."""
    options = "mode=0777" + ("" if size is None else f",size={size}")
    failed = _libc().mount(b"tmpfs", os.fsencode(target), b"tmpfs", _NO_SUID | _NO_DEVICES, options.encode())
    if failed:
        raise _error(target)


def unmount(target: Path) -> None:
    """Unmounts *target* lazily. Raises OSError."""
    # Lazily, because a container that is just ending may still use it.
    if _libc().umount2(os.fsencode(target), _DETACH):
        raise _error(target)


def mounts_below(directory: Path) -> list[Path]:
    """The mount points at or below *directory*, the innermost first."""
    below = linux.mounts_below(os.path.realpath(directory))
    return [Path(point) for point in sorted(below, key=lambda point: point.count("/"), reverse=True)]


def is_mount_point(directory: Path) -> bool:
    return os.path.realpath(directory) in linux.mount_points()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error(target: Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(target))
