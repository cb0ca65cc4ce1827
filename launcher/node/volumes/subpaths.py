"""subPath: a part of a volume, and never anything outside of it."""

import os
from pathlib import Path, PurePosixPath

from launcher.node.volumes.paths import make_directory, open_directory
from launcher.node.volumes.volumefault import CannotMount


def sub_path(volume: Path, part: str, *, make: bool) -> Path:
    """
    The *part* of the volume, with every link followed; missing directories are made if *make* says so.

    Raises CannotMount when it is not there, or leads out of the volume.
    """
    pure = PurePosixPath(part)
    if pure.is_absolute() or ".." in pure.parts or "\0" in part:
        raise CannotMount(f'subPath "{part}" must be relative, without ".."')
    root = Path(os.path.realpath(volume))
    at = root
    for name in pure.parts:
        at = _inside(root, at / name, part)
        if not at.exists():
            if not make:
                raise CannotMount(f'subPath "{part}" is not in the volume')
            _make(at, part)
    return at


def _inside(root: Path, path: Path, part: str) -> Path:
    """*path* with its links followed, checked step by step so that nothing is ever made outside."""
    real = Path(os.path.realpath(path))
    if real != root and root not in real.parents:
        raise CannotMount(f'subPath "{part}" leads out of the volume')
    return real


def _make(path: Path, part: str) -> None:
    try:
        parent = open_directory(path.parent, make=True)
        try:
            make_directory(path.name, parent)
            # By a descriptor: a link that has appeared meanwhile is not followed.
            made = os.open(
                path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
            )
            try:
                os.fchmod(made, os.fstat(parent).st_mode & 0o7777)
            finally:
                os.close(made)
        finally:
            os.close(parent)
    except OSError as error:
        raise CannotMount(f'subPath "{part}" cannot be made: {error.strerror}') from error
