"""Removes directory trees, and measures their size."""

import os
import stat
from pathlib import Path

from launcher.node.volumes.mounts import mounts_below, unmount

#: Deeper directories are moved up first, to limit the recursion and the number of open files.
_MAX_DEPTH = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES = 512


def remove_tree(directory: Path) -> None:
    """
    Remove the directory and its content, if it exists. Raises OSError if something cannot be removed.

    Mounts in it are unmounted first, and their content is never removed; links are not followed.
    """
    try:
        parent = os.open(directory.parent, _OPEN & ~os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.stat(directory.name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(directory.name, dir_fd=parent)
            return
        for point in mounts_below(directory):
            unmount(point)
        if remaining := mounts_below(directory):
            raise OSError(f"{remaining[0]} is still mounted: nothing below {directory} is removed")
        _remove_directory(directory.name, parent)
    except FileNotFoundError:
        return
    finally:
        os.close(parent)


def _remove_directory(name: str, parent: int) -> None:
    top = _open(name, parent)
    try:
        # Repeated until nothing was too deep: such directories have been moved to the top.
        while not _remove_content(top, top, 0):
            pass
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _remove_content(directory: int, top: int, depth: int) -> bool:
    """Removes everything in *directory*. Returns False if a directory was too deep and moved to *top*."""
    complete = True
    with os.scandir(directory) as entries:
        children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in children:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
        elif depth >= _MAX_DEPTH:
            moved = f".{os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino}.deep"
            os.rename(name, moved, src_dir_fd=directory, dst_dir_fd=top)
            complete = False
        else:
            inner = _open(name, directory)
            try:
                complete = _remove_content(inner, top, depth + 1) and complete
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=directory)
    return complete


def _open(name: str, parent: int) -> int:
    """A descriptor of the directory, whose mode is changed so that its owner has all permissions."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)
        descriptor = os.open(name, _OPEN, dir_fd=parent)
    mode = os.fstat(descriptor).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(descriptor, stat.S_IRWXU)
    return descriptor


def usage(directory: Path) -> int:
    """The bytes of disk that the directory's content uses; files that are removed meanwhile do not count."""
    total = 0
    pending = [str(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                    except FileNotFoundError:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except (FileNotFoundError, PermissionError):
            continue
    return total
