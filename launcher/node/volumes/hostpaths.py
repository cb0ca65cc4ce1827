"""hostPath volumes: what of this machine a pod asks for by its path, checked as the kubelet does."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.node.volumes.volumefault import CannotMount

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


def host_path(volume: Mapping[str, Any]) -> Path:
    """The path, made if its type says so. Raises CannotMount when it is not of its type."""
    path, kind = Path(volume.get("path") or ""), volume.get("type") or ""
    if not path.is_absolute() or ".." in path.parts:
        raise CannotMount(f'hostPath.path "{path}" must be absolute, without ".."')
    if kind and kind not in _CHECKS:
        raise CannotMount(f'{kind} is an invalid volume type: use "" or one of {", ".join(_CHECKS)}')
    try:
        _make(path, kind)
        if kind:
            _check(path, kind)
    except OSError as error:
        raise CannotMount(f"hostPath {path}: {error.strerror}") from error
    return path


def _make(path: Path, kind: str) -> None:
    if kind in ("", "DirectoryOrCreate") and not os.path.lexists(path):
        # Without a type too: container engines make what they are to mount.
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate" and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _check(path: Path, kind: str) -> None:
    is_of_kind, called = _CHECKS[kind]
    try:
        fits = is_of_kind(path.stat().st_mode)
    except FileNotFoundError:
        fits = False
    if not fits:
        raise CannotMount(f"hostPath type check failed: {path} is not a {called}")
