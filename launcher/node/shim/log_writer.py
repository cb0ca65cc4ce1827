"""
Writes a container's log in the CRI's format: ``2024-05-01T12:00:00.123456789Z stdout F a line``.

P in place of F is a part of a line; the next record of that stream goes on with it. Nothing is held back: what was
read is written, so that neither a prompt without an end of line nor the death of a keeper hides anything.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.node.shim.log_limits import LogLimits

#: The longest content of one record.
LONGEST = 16 * 1024
#: A log that nobody will write to any more may be read only: so a reader knows that it has seen all.
WRITING, FINISHED = 0o640, 0o440
_LOW_DISK = "the disk has less free space than is reserved (log-disk-reserve)"


class LogWriter:
    """The log of one run. A full disk loses lines, never the run; how many is told in the log as soon as it can be."""

    __slots__ = ("_broken", "_file", "_group", "_limits", "_path", "_size", "bucket", "lost", "written")

    def __init__(self, path: str, limits: LogLimits, group: str = "") -> None:
        """The log at *path*, continued when there is one. *group* is the Framework whose budget it shares."""
        self._path, self._limits, self._group = path, limits, group
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = _opened(path)
        self._size = os.fstat(self._file).st_size
        limits.join(group)
        self.bucket = limits.run_bucket(time.monotonic())
        #: Bytes that were written to its files.
        self.written = 0
        #: Lines that could not be written.
        self.lost = 0
        self._broken = ""

    def write(self, stream: bytes, data: bytes, now: int) -> None:
        """Add *data*, read from *stream* at *now* (nanoseconds since 1970)."""
        if not self._limits.has_room(self._file, time.monotonic()):
            self._pause(now)
            self.lost += max(1, data.count(b"\n"))
            return
        if self.lost and not self._tell_loss(now):
            self.lost += max(1, data.count(b"\n"))
            return
        text = records(stream, data, now)
        limit = self._limits.file_bytes(self._group)
        while text:
            if self._size and self._size + len(text) > limit:
                self._rotate()
            # What is longer than a file is divided between records; a single record may be longer.
            end = len(text) if len(text) <= limit else text.rfind(b"\n", 0, limit) + 1 or text.find(b"\n") + 1
            if not self._append(text[:end]):
                self.lost += max(1, text.count(b"\n"))
                return
            text = text[end:]

    def close(self, now: int) -> None:
        """Nothing more comes."""
        if self.lost:
            self._tell_loss(now)
        os.fchmod(self._file, FINISHED)
        os.close(self._file)
        self._limits.leave(self._group)

    def abandon(self) -> None:
        """As if there had been no run: an empty log goes."""
        os.close(self._file)
        self._limits.leave(self._group)
        if not self._size:
            os.unlink(self._path)

    def _pause(self, now: int) -> None:
        """Write no more for the time being: the rest of the disk is for those who have to store their state."""
        self._broken = _LOW_DISK
        if not self.lost:
            words = f"launcher: the log stops here: {_LOW_DISK}\n"
            self._append(records(b"stderr", words.encode(), now))

    def _tell_loss(self, now: int) -> bool:
        words = f"launcher: {self.lost} lines of the log were lost here: {self._broken}\n"
        if not self._append(records(b"stderr", words.encode(), now)):
            return False
        self.lost = 0
        return True

    def _append(self, text: bytes) -> bool:
        """Whether all of it is written; otherwise none is."""
        written = 0
        try:
            while written < len(text):
                written += os.write(self._file, text[written:] if written else text)
        except OSError as error:
            self._broken = os.strerror(error.errno or 0).lower()
            # Half a record would spoil the next one. Giving space back works on a full disk too.
            os.ftruncate(self._file, self._size)
            return False
        self._size += written
        self.written += written
        return True

    def _rotate(self) -> None:
        try:
            # Made before anything is moved: without room for it, all stays as it is.
            fresh = _opened(new := f"{self._path}.new")
        except OSError as error:
            self._broken = os.strerror(error.errno or 0).lower()
            return
        try:
            keep = self._limits.files
            for number in range(keep, 1, -1):
                if os.path.exists(newer := f"{self._path}.{number - 1}"):
                    os.rename(newer, f"{self._path}.{number}")
            if keep:
                _put_aside(self._path, f"{self._path}.1")
            os.rename(new, self._path)
        except OSError as error:
            self._broken = os.strerror(error.errno or 0).lower()
            os.close(fresh)
            with suppress(OSError):
                os.unlink(new)
            return
        os.close(self._file)
        self._file, self._size = fresh, 0


def _put_aside(path: str, aside: str) -> None:
    """Give the log's file another name, while it keeps its own where the filesystem has hard links."""
    try:
        os.link(path, aside)
    except OSError:
        # For a moment no file is at *path*: readers then look for the new one beside it.
        os.rename(path, aside)


def _opened(path: str) -> int:
    if os.path.exists(path):
        # A keeper may have been killed after the last line and before it wrote down the end.
        os.chmod(path, WRITING)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, WRITING)
    os.fchmod(file, WRITING)
    return file


def records(stream: bytes, data: bytes, now: int) -> bytes:
    """*data* as records of the log, all of the same time."""
    prefix = stamp(now) + b" " + stream
    full, part = prefix + b" F ", prefix + b" P "
    lines = data.split(b"\n")
    rest = lines.pop()
    if len(data) <= LONGEST:  # the common case: no line is too long
        text = b"".join([full + line + b"\n" for line in lines])
    else:
        text = b"".join([_long(full, part, line) for line in lines])
    while rest:
        text += part + rest[:LONGEST] + b"\n"
        rest = rest[LONGEST:]
    return text


def _long(full: bytes, part: bytes, line: bytes) -> bytes:
    text = b""
    while len(line) > LONGEST:
        text += part + line[:LONGEST] + b"\n"
        line = line[LONGEST:]
    return text + full + line + b"\n"


_second, _spelt = -1, b""


def stamp(now: int) -> bytes:
    """RFC 3339 with nine digits. A second is spelt out once."""
    global _second, _spelt
    second, rest = divmod(now, 1_000_000_000)
    if second != _second:
        _second, _spelt = second, time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second)).encode()
    return b"%s%09dZ" % (_spelt, rest)
