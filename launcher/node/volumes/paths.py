"""Joins names to paths safely, and opens directories without following symbolic links."""

import os
import stat
from pathlib import Path

from launcher.node.file_names import is_file_name
from launcher.node.volumes.mounts import MountFailed

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def entry(directory: Path, name: object) -> Path:
    """
    The entry *name* of *directory*. Raises MountFailed for a name that is not a single path component.

    Admission rejects such names; this is for objects that were stored without it.
    """
    if not is_file_name(name):
        raise MountFailed(f"{name!r} cannot be a file name: rename it")
    return directory / str(name)


def open_directory(real: Path, *, create: bool) -> int:
    """
    A descriptor of the directory *real*, an absolute path without symbolic links; *create* creates missing parts.

    Raises OSError, also if a part of the path is a link.
    """
    current = os.open("/", _DIRECTORY)
    for name in real.parts[1:]:
        try:
            if create:
                create_directory(name, current)
            child = os.open(name, _DIRECTORY, dir_fd=current)
        finally:
            os.close(current)
        current = child
    return current


def create_directory(name: str, parent: int, mode: int = 0o755) -> None:
    """Creates the directory *name* in *parent*, unless *name* exists."""
    if is_missing(name, parent):
        try:
            os.mkdir(name, mode, dir_fd=parent)
        except FileExistsError:
            return  # created by another pod meanwhile


def is_missing(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False


def is_link(descriptor: int) -> bool:
    return stat.S_ISLNK(os.fstat(descriptor).st_mode)
