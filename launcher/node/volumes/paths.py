"""Paths made of names, and directories opened without following a symbolic link."""

import os
import stat
from pathlib import Path

from launcher.node.file_names import is_file_name
from launcher.node.volumes.mounts import MountFailed

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def entry(directory: Path, name: object) -> Path:
    """
    The entry *name* of *directory*. Raises MountFailed for a name that would lead anywhere else.

    Admission rejects such names; this is for objects that were stored in another way.
    """
    if not is_file_name(name):
        raise MountFailed(f"{name!r} cannot be a file name: rename it")
    return directory / str(name)


def open_directory(real: Path, *, make: bool) -> int:
    """
    A descriptor of the directory *real*, an absolute path without symbolic links; with *make*, of a new one.

    Raises OSError, also when a part of the path is a link.
    """
    at = os.open("/", _DIRECTORY)
    for name in real.parts[1:]:
        try:
            if make:
                make_directory(name, at)
            below = os.open(name, _DIRECTORY, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def make_directory(name: str, parent: int, mode: int = 0o755) -> None:
    """There is something called *name* in the directory *parent*: a new directory, unless it was there before."""
    if is_missing(name, parent):
        try:
            os.mkdir(name, mode, dir_fd=parent)
        except FileExistsError:
            return  # made by another pod in the meantime


def is_missing(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False


def is_link(descriptor: int) -> bool:
    return stat.S_ISLNK(os.fstat(descriptor).st_mode)
