"""
hostPath volumes: what of this machine a pod asks for by its path, checked as the kubelet does.

Links are followed once, here, and what they lead to has to be allowed. From then on the path has no link in it: it is
opened without following any, here and where it is mounted, so a link that appears later is an error and leads nowhere.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.node.volumes.mounts import MountFailed
from launcher.node.volumes.paths import is_link, is_missing, make_directory, open_directory


def claimed(volume: Mapping[str, Any], stand_ins: Mapping[str, Path]) -> Path:
    """The directory that stands in for the claim. Raises MountFailed."""
    name = volume.get("claimName", "")
    path = stand_ins.get(name)
    if path is None:
        raise MountFailed(
            f"there are no volumes to claim on this machine; start the launcher with --claim {name}=DIR to let a "
            "directory stand in for it"
        )
    if not path.is_dir():
        raise MountFailed(f"{path}, which stands in for the claim {name}, is not a directory")
    return Path(os.path.realpath(path))


#: What must be there for each type, and what it is called when it is not.
_CHECKS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
_NEW_FILE = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def host_path(volume: Mapping[str, Any], prefixes: Sequence[str] | None) -> Path:
    """
    The path with every link followed, made if its type says so.

    Raises MountFailed when it is not of its type, or not below one of *prefixes*; None allows every path.
    """
    path, kind = Path(volume.get("path") or ""), volume.get("type") or ""
    if not path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise MountFailed(f'hostPath.path "{path}" must be absolute, without ".."')
    if kind and kind not in _CHECKS:
        raise MountFailed(f'{kind} is an invalid volume type: use "" or one of {", ".join(_CHECKS)}')
    try:
        real = Path(os.path.realpath(path))
        _check_allowed(path, real, prefixes)
        found = _opened(real, kind)
        try:
            if kind and not _CHECKS[kind][0](os.fstat(found).st_mode):
                raise MountFailed(f"hostPath type check failed: {path} is not a {_CHECKS[kind][1]}")
        finally:
            os.close(found)
    except FileNotFoundError as error:
        what = _CHECKS[kind][1] if kind else "directory"
        raise MountFailed(f"hostPath type check failed: {path} is not a {what}") from error
    except OSError as error:
        raise MountFailed(f"hostPath {path}: {error.strerror}") from error
    return real


def _check_allowed(path: Path, real: Path, prefixes: Sequence[str] | None) -> None:
    if prefixes is None:
        return
    allowed = ", ".join(prefixes) or "there are none"
    if not any(path.is_relative_to(prefix) for prefix in prefixes):
        raise MountFailed(f"hostPath {path} is outside of the host paths that are allowed here: {allowed}")
    if not any(real.is_relative_to(os.path.realpath(prefix)) for prefix in prefixes):
        raise MountFailed(
            f"hostPath {path} leads to {real}, which is outside of the host paths that are allowed here: {allowed}"
        )


def _opened(real: Path, kind: str) -> int:
    """A descriptor of the path, in which no link is followed; what is missing is made if *kind* says so."""
    # Without a type too: container engines make what they are to mount.
    make = kind in ("", "DirectoryOrCreate")
    parent = open_directory(real.parent, make=make)
    try:
        if make:
            make_directory(real.name or ".", parent)
        elif kind == "FileOrCreate" and is_missing(real.name, parent):
            os.close(os.open(real.name, _NEW_FILE, 0o644, dir_fd=parent))
        found = os.open(real.name or ".", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    finally:
        os.close(parent)
    if is_link(found):
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found
