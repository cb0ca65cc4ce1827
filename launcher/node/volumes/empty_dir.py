"""emptyDir volumes, on disk or in memory."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.core.quantity import quantity
from launcher.node.volumes.directory_tree import remove_tree
from launcher.node.volumes.mounts import MountFailed, is_mount_point, mount_tmpfs

#: A filesystem in memory in which every user may create a directory.
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - each directory there is checked to be owned by this user


def size_limit(volume: Mapping[str, Any]) -> int | None:
    """The limit in bytes; None without one."""
    limit = volume.get("sizeLimit")
    return int(quantity(limit)) or None if limit is not None else None


def empty_dir(volume: Mapping[str, Any], directory: Path, shared_memory_name: str) -> tuple[Path, str]:
    """
    Create the volume. Returns its path, and a remark for the user or an empty string.

    An existing directory is not changed. If no tmpfs can be mounted, a volume in memory is the directory
    *shared_memory_name* in /dev/shm. Raises MountFailed.
    """
    medium = volume.get("medium") or ""
    if medium not in ("", "Memory"):
        raise MountFailed(f'emptyDir.medium "{medium}" is not supported: use "" or Memory')
    _create(directory)
    if not medium or is_mount_point(directory):
        return directory, ""
    try:
        mount_tmpfs(directory, size_limit(volume))
    except OSError as error:
        return _in_shared_memory(shared_memory_name), (
            f"no tmpfs can be mounted ({error.strerror}), so it is a directory in {_SHARED_MEMORY}; "
            "its size limit is checked periodically"
        )
    return directory, ""


def shared_memory_path(shared_memory_name: str) -> Path:
    """The path of the directory in /dev/shm, which may not exist."""
    return _SHARED_MEMORY / shared_memory_name


def remove_shared_memory(shared_memory_name: str) -> None:
    """Removes the directory in /dev/shm, if it exists and belongs to this user."""
    path = shared_memory_path(shared_memory_name)
    if path.exists() and path.lstat().st_uid == os.geteuid():
        remove_tree(path)


def _create(directory: Path) -> None:
    directory.mkdir(exist_ok=True, parents=True)
    # Containers may write it whatever their user is; the umask would prevent that.
    if stat.S_IMODE(directory.stat().st_mode) & 0o777 != 0o777:
        directory.chmod(0o777)


def _in_shared_memory(name: str) -> Path:
    path = shared_memory_path(name)
    try:
        path.mkdir(exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise MountFailed(f"{path} belongs to another user: remove it")
        path.chmod(0o777)
    except OSError as error:
        raise MountFailed(f"emptyDir in memory: {path}: {error.strerror}") from error
    return path
