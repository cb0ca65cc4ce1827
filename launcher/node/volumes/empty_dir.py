"""emptyDir volumes: room for a pod's own files, on disk or in memory, for as long as the pod lives."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.core.quantity import quantity
from launcher.node.volumes.directory_tree import remove_tree
from launcher.node.volumes.mounts import MountFailed, is_mount_point, mount_tmpfs

#: A file system in memory in which everybody may have a directory.
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - each directory there is checked to be our own


def size_limit(volume: Mapping[str, Any]) -> int | None:
    """Bytes that it may hold; None is as much as there is room."""
    limit = volume.get("sizeLimit")
    return int(quantity(limit)) or None if limit is not None else None


def empty_dir(volume: Mapping[str, Any], directory: Path, stand_in: str) -> tuple[Path, str]:
    """
    Where the volume is, and what has to be said about it, if anything.

    A directory that is there already stays as it is. Where no file system may be mounted, one in memory is a directory
    *stand_in* of the shared memory. Raises MountFailed.
    """
    medium = volume.get("medium") or ""
    if medium not in ("", "Memory"):
        raise MountFailed(f'emptyDir.medium "{medium}" is not known here: use "" or Memory')
    _make(directory)
    if not medium or is_mount_point(directory):
        return directory, ""
    try:
        mount_tmpfs(directory, size_limit(volume))
    except OSError as error:
        return _in_shared_memory(stand_in), (
            f"no file system can be mounted here ({error.strerror}), so it is a directory of {_SHARED_MEMORY}; "
            "its size is looked at from time to time"
        )
    return directory, ""


def stand_in_path(stand_in: str) -> Path:
    """Where that directory of the shared memory is, if it is."""
    return _SHARED_MEMORY / stand_in


def forget_empty_dir(stand_in: str) -> None:
    """Nothing is left in the shared memory of the volume with that *stand_in*."""
    path = stand_in_path(stand_in)
    if path.exists() and path.lstat().st_uid == os.geteuid():
        remove_tree(path)


def _make(directory: Path) -> None:
    directory.mkdir(exist_ok=True, parents=True)
    # Whoever the containers run as, they may write; the umask would forbid it.
    if stat.S_IMODE(directory.stat().st_mode) & 0o777 != 0o777:
        directory.chmod(0o777)


def _in_shared_memory(name: str) -> Path:
    path = stand_in_path(name)
    try:
        path.mkdir(exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise MountFailed(f"{path} belongs to somebody else: remove it")
        path.chmod(0o777)
    except OSError as error:
        raise MountFailed(f"emptyDir in memory: {path}: {error.strerror}") from error
    return path
