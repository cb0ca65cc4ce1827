"""
hostPath volumes, checked like in the kubelet, and directories for persistent volume claims.

Links are resolved once, here, and the result has to be allowed. From then on the path contains no link: it is opened
without following any, here and where it is mounted, so a link that appears later is an error.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.node.volumes.mounts import MountFailed
from launcher.node.volumes.paths import create_directory, is_link, is_missing, open_directory


def claim_directory(volume: Mapping[str, Any], claims: Mapping[str, Path]) -> Path:
    """The directory that is configured for the claim. Raises MountFailed."""
    name = volume.get("claimName", "")
    path = claims.get(name)
    if path is None:
        raise MountFailed(
            f"no directory is configured for the claim {name}; start the launcher with --claim {name}=DIR"
        )
    if not path.is_dir():
        raise MountFailed(f"the directory {path} of the claim {name} does not exist")
    return Path(os.path.realpath(path))


#: The check of each type, and its name in the message.
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
    The path with all links resolved, created if its type requires it.

    Raises MountFailed if it is not of its type, or not below one of *prefixes*; None allows every path.
    """
    path, kind = Path(volume.get("path") or ""), volume.get("type") or ""
    if not path.is_absolute() or ".." in path.parts or "\0" in str(path):
        raise MountFailed(f'hostPath.path "{path}" must be absolute, without ".."')
    if kind and kind not in _CHECKS:
        raise MountFailed(f'{kind} is an invalid volume type: use "" or one of {", ".join(_CHECKS)}')
    try:
        real = Path(os.path.realpath(path))
        _check_allowed(path, real, prefixes)
        descriptor = _open(real, kind)
        try:
            if kind and not _CHECKS[kind][0](os.fstat(descriptor).st_mode):
                raise MountFailed(f"hostPath type check failed: {path} is not a {_CHECKS[kind][1]}")
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        expected = _CHECKS[kind][1] if kind else "directory"
        raise MountFailed(f"hostPath type check failed: {path} is not a {expected}") from error
    except OSError as error:
        raise MountFailed(f"hostPath {path}: {error.strerror}") from error
    return real


def _check_allowed(path: Path, real: Path, prefixes: Sequence[str] | None) -> None:
    if prefixes is None:
        return
    allowed = ", ".join(prefixes) or "none"
    if not any(path.is_relative_to(prefix) for prefix in prefixes):
        raise MountFailed(f"hostPath {path} is outside the allowed host paths: {allowed}")
    if not any(real.is_relative_to(os.path.realpath(prefix)) for prefix in prefixes):
        raise MountFailed(
            f"hostPath {path} leads to {real}, which is outside the allowed host paths: {allowed}"
        )


def _open(real: Path, kind: str) -> int:
    """A descriptor of the path, opened without following links; a missing path is created if *kind* requires it."""
    # Also without a type, like container engines.
    create = kind in ("", "DirectoryOrCreate")
    parent = open_directory(real.parent, create=create)
    try:
        if create:
            create_directory(real.name or ".", parent)
        elif kind == "FileOrCreate" and is_missing(real.name, parent):
            os.close(os.open(real.name, _NEW_FILE, 0o644, dir_fd=parent))
        descriptor = os.open(real.name or ".", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    finally:
        os.close(parent)
    if is_link(descriptor):
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return descriptor
