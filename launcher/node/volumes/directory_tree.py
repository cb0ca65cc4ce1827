"""Directories with all that is in them: removed, and measured."""

import os
import stat
from pathlib import Path

from launcher.node.volumes.mounts import mounts_below, unmount

#: Deeper directories are first moved up, so that neither the stack nor the open files run out.
_DEEP = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512


def remove_tree(directory: Path) -> None:
    """
    The directory is gone with all in it, if it was there. Raises OSError when something would not go.

    What is mounted in it is unmounted first, and never removed; links are removed, never followed.
    """
    try:
        outside = os.open(directory.parent, _OPEN & ~os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.stat(directory.name, dir_fd=outside, follow_symlinks=False).st_mode):
            os.unlink(directory.name, dir_fd=outside)
            return
        for point in mounts_below(directory):
            unmount(point)
        if left := mounts_below(directory):
            raise OSError(f"{left[0]} is still mounted: nothing below {directory} is removed")
        _remove_directory(directory.name, outside)
    except FileNotFoundError:
        return
    finally:
        os.close(outside)


def _remove_directory(name: str, parent: int) -> None:
    top = _opened(name, parent)
    try:
        # What is too deep has been moved to the top, where it is no longer deep.
        while not _emptied(top, top, 0):
            pass
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _emptied(directory: int, top: int, depth: int) -> bool:
    """Remove everything in *directory*. Whether that was all, with nothing moved to the top."""
    whole = True
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
        elif depth >= _DEEP:
            lifted = f".{os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino}.deep"
            os.rename(name, lifted, src_dir_fd=directory, dst_dir_fd=top)
            whole = False
        else:
            inner = _opened(name, directory)
            try:
                whole = _emptied(inner, top, depth + 1) and whole
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=directory)
    return whole


def _opened(name: str, parent: int) -> int:
    """A descriptor of the directory, in which its owner may now do everything."""
    try:
        opened = os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)
        opened = os.open(name, _OPEN, dir_fd=parent)
    mode = os.fstat(opened).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(opened, stat.S_IRWXU)
    return opened


def usage(directory: Path) -> int:
    """Bytes of disk that everything in the directory takes; what goes away meanwhile does not count."""
    total = 0
    waiting = [str(directory)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    except FileNotFoundError:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except (FileNotFoundError, PermissionError):
            continue
    return total
