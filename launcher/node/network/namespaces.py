"""
Network namespaces that exist without a process: each is mounted on a file.

A thread is in one network namespace at a time; the functions here move only the calling thread.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.node.shim import linux

#: Contains the namespaces of all launchers of this machine; hidden from containers.
NAMESPACES_DIRECTORY = Path("/run/framework-launcher")
_OWN = "/proc/thread-self/ns/net"


def create(file: Path) -> None:
    """Creates a network namespace and mounts it on *file*, unless that is done already."""
    if is_namespace(file):
        return
    file.touch(mode=0o600)
    own = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        linux.unshare(linux.NEW_NETWORK)
        try:
            linux.mount(_OWN, str(file), None, linux.MS_BIND)
        finally:
            linux.enter(own)
    finally:
        os.close(own)


def mount_from(process: int, file: Path) -> None:
    """Mounts the network namespace of the process on *file*. Raises OSError."""
    file.touch(mode=0o600)
    linux.mount(_of(process), str(file), None, linux.MS_BIND)


def remove(file: Path) -> None:
    """Removes the file; the namespace ends with its last process."""
    if is_namespace(file):
        linux.unmount(str(file))
    file.unlink(missing_ok=True)


@contextmanager
def inside(file: Path) -> Iterator[None]:
    """Moves this thread into the namespace of *file* for the block."""
    own = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        namespace = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.enter(namespace)
        finally:
            os.close(namespace)
        try:
            yield
        finally:
            linux.enter(own)
    finally:
        os.close(own)


def is_namespace(file: Path) -> bool:
    """Whether a namespace is mounted on *file*; it is not after a reboot."""
    try:
        return file.stat().st_dev == os.stat(_OWN).st_dev
    except FileNotFoundError:
        return False


def is_namespace_of(process: int, file: Path) -> bool:
    """Whether the namespace of the process is mounted on *file*. Raises OSError if the process has ended."""
    return is_namespace(file) and file.stat().st_ino == os.stat(_of(process)).st_ino


def _of(process: int) -> str:
    return f"/proc/{process}/ns/net"


def are_in_use(files: Iterable[Path]) -> bool:
    """Whether any process is in one of these namespaces."""
    inodes = {file.stat().st_ino for file in files if is_namespace(file)}
    if not inodes:
        return False
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.stat(_of(int(pid))).st_ino in inodes:
                return True
        except OSError:
            continue  # it has ended
    return False
