"""The view of a machine's files that the mount planner uses."""

import os
import re
import stat
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from launcher.node.shim import linux

_CONSOLE = re.compile(r"tty[0-9]+|vcs[au]?[0-9]*")


class FileType(Enum):
    """The type of a file."""

    MISSING = "missing"
    DIR = "directory"
    #: Also a device, a socket or a pipe: a file can be mounted on it.
    FILE = "file"
    LINK = "link"


class Filesystem(Protocol):
    """The files of a machine, or those of a test."""

    def kind(self, path: str) -> FileType:
        """The type of the file; links are not followed."""
        ...

    def text(self, link: str) -> str:
        """The target of a link."""
        ...

    def followed_kind(self, path: str) -> FileType:
        """The type of the file after all links are followed."""
        ...

    def entries(self, directory: str) -> Sequence[str]:
        """The sorted names in a directory; none if it cannot be read."""
        ...

    def mode(self, directory: str) -> int:
        """Its permissions."""
        ...

    def mounts_below(self, directory: str) -> Sequence[str]:
        """The mount points below it, parents first."""
        ...


class Machine:
    """This machine's files."""

    def kind(self, path: str) -> FileType:
        try:
            return _kind(os.lstat(path).st_mode)
        except OSError:
            return FileType.MISSING

    def text(self, link: str) -> str:
        return os.readlink(link)

    def followed_kind(self, path: str) -> FileType:
        try:
            return _kind(os.stat(path).st_mode)
        except OSError:
            return FileType.MISSING

    def entries(self, directory: str) -> Sequence[str]:
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            return ()
        # Nearly every container mounts something in /dev, so that it is rebuilt entry by entry. Most entries are
        # virtual consoles, which containers do not need.
        return [name for name in names if not _CONSOLE.fullmatch(name)] if directory == "/dev" else names

    def mode(self, directory: str) -> int:
        return stat.S_IMODE(os.stat(directory).st_mode)

    def mounts_below(self, directory: str) -> Sequence[str]:
        return sorted(set(linux.mounts_below(directory)) - {directory})


def _kind(mode: int) -> FileType:
    return FileType.DIR if stat.S_ISDIR(mode) else FileType.LINK if stat.S_ISLNK(mode) else FileType.FILE
