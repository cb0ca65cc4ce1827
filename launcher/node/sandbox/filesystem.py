"""What a plan needs to know of this machine's files."""

import os
import re
import stat
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

_CONSOLE = re.compile(r"tty[0-9]+|vcs[au]?[0-9]*")


class FileType(Enum):
    """What is at a path."""

    MISSING = "missing"
    DIR = "directory"
    #: Also a device, a socket or a pipe: something that a file can be mounted on.
    FILE = "file"
    LINK = "link"


class Filesystem(Protocol):
    """The files of a machine, as they are or as a test has them."""

    def kind(self, path: str) -> FileType:
        """What is there; a link is a link, whatever it points to."""
        ...

    def text(self, link: str) -> str:
        """Where a link points to."""
        ...

    def solid(self, path: str) -> FileType:
        """What is there once every link is followed."""
        ...

    def entries(self, directory: str) -> Sequence[str]:
        """The names in a directory, in order; none when it cannot be read."""
        ...

    def mode(self, directory: str) -> int:
        """Its permissions."""
        ...

    def mounts_below(self, directory: str) -> Sequence[str]:
        """Where something else is mounted under it, parents first."""
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

    def solid(self, path: str) -> FileType:
        try:
            return _kind(os.stat(path).st_mode)
        except OSError:
            return FileType.MISSING

    def entries(self, directory: str) -> Sequence[str]:
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            return ()
        # Nearly every container has a place of its own in /dev, so that it is shown entry by entry. The virtual
        # consoles are most of it, and nothing for a container.
        return [name for name in names if not _CONSOLE.fullmatch(name)] if directory == "/dev" else names

    def mode(self, directory: str) -> int:
        return stat.S_IMODE(os.stat(directory).st_mode)

    def mounts_below(self, directory: str) -> Sequence[str]:
        top = directory.rstrip("/") + "/"
        with open("/proc/self/mountinfo", "rb") as lines:
            raw = [line.split()[4] for line in lines]
        # Spaces and the like are written as octal numbers.
        places = {os.fsdecode(place.decode("unicode_escape").encode("latin-1")) for place in raw}
        return sorted(place for place in places if place.startswith(top))


def _kind(mode: int) -> FileType:
    return FileType.DIR if stat.S_ISDIR(mode) else FileType.LINK if stat.S_ISLNK(mode) else FileType.FILE
