"""
Writes a container's log in the CRI's format: ``2024-05-01T12:00:00.123456789Z stdout F a line``.

P in place of F marks a partial line, which the next record of that stream continues. Output is written as soon as it is
read, so that neither a prompt without an end of line nor the end of the shim hides anything.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.node.shim.log_limits import LogLimits

#: The maximum length of the content of one record.
MAX_RECORD_BYTES = 16 * 1024
#: File modes. A complete log is read-only: a reader recognises by it that nothing follows.
WRITING, FINISHED = 0o640, 0o440
_LOW_DISK = "the disk has less free space than is reserved (log-disk-reserve)"


class LogWriter:
    """The log of one run. Lines are lost on a full disk; their number is written to the log as soon as possible."""

    __slots__ = ("_error", "_file", "_group", "_limits", "_path", "_size", "bucket", "lost", "written")

    def __init__(self, path: str, limits: LogLimits, group: str = "") -> None:
        """Opens the log at *path* for appending. *group* identifies the runs that share a budget."""
        self._path, self._limits, self._group = path, limits, group
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = _open(path)
        self._size = os.fstat(self._file).st_size
        limits.join(group)
        self.bucket = limits.run_bucket(time.monotonic())
        #: Bytes written to its files.
        self.written = 0
        #: Lines that could not be written.
        self.lost = 0
        self._error = ""

    def write(self, stream: bytes, data: bytes, now: int) -> None:
        """Appends *data*, read from *stream* at *now* (nanoseconds since 1970)."""
        if not self._limits.has_space(self._file, time.monotonic()):
            self._write_low_disk(now)
            self.lost += max(1, data.count(b"\n"))
            return
        if self.lost and not self._write_loss(now):
            self.lost += max(1, data.count(b"\n"))
            return
        text = records(stream, data, now)
        limit = self._limits.file_bytes(self._group)
        while text:
            if self._size and self._size + len(text) > limit:
                self._rotate()
            # Text longer than a file is divided between records; a single record may be longer than a file.
            end = len(text) if len(text) <= limit else text.rfind(b"\n", 0, limit) + 1 or text.find(b"\n") + 1
            if not self._append(text[:end]):
                self.lost += max(1, text.count(b"\n"))
                return
            text = text[end:]

    def close(self, now: int) -> None:
        """Closes the complete log."""
        if self.lost:
            self._write_loss(now)
        os.fchmod(self._file, FINISHED)
        os.close(self._file)
        self._limits.leave(self._group)

    def abandon(self) -> None:
        """Closes the log of a run that did not start, and deletes it if it is empty."""
        os.close(self._file)
        self._limits.leave(self._group)
        if not self._size:
            os.unlink(self._path)

    def _write_low_disk(self, now: int) -> None:
        """Writes a last line before lines are lost: the reserve is for components that have to store their state."""
        self._error = _LOW_DISK
        if not self.lost:
            message = f"launcher: the log stops here: {_LOW_DISK}\n"
            self._append(records(b"stderr", message.encode(), now))

    def _write_loss(self, now: int) -> bool:
        message = f"launcher: {self.lost} lines of the log were lost here: {self._error}\n"
        if not self._append(records(b"stderr", message.encode(), now)):
            return False
        self.lost = 0
        return True

    def _append(self, text: bytes) -> bool:
        """Appends all of *text*, or nothing. Returns whether it was written."""
        written = 0
        try:
            while written < len(text):
                written += os.write(self._file, text[written:] if written else text)
        except OSError as error:
            self._error = os.strerror(error.errno or 0).lower()
            # A partial record would corrupt the next one. Truncating works on a full disk too.
            os.ftruncate(self._file, self._size)
            return False
        self._size += written
        self.written += written
        return True

    def _rotate(self) -> None:
        try:
            # Created before anything is renamed: if the disk is full, nothing changes.
            file = _open(new := f"{self._path}.new")
        except OSError as error:
            self._error = os.strerror(error.errno or 0).lower()
            return
        try:
            files = self._limits.files
            for number in range(files, 1, -1):
                if os.path.exists(newer := f"{self._path}.{number - 1}"):
                    os.rename(newer, f"{self._path}.{number}")
            if files:
                _link_or_rename(self._path, f"{self._path}.1")
            os.rename(new, self._path)
        except OSError as error:
            self._error = os.strerror(error.errno or 0).lower()
            os.close(file)
            with suppress(OSError):
                os.unlink(new)
            return
        os.close(self._file)
        self._file, self._size = file, 0


def _link_or_rename(path: str, target: str) -> None:
    """Names the log's file *target*, in addition to *path* where the filesystem has hard links."""
    try:
        os.link(path, target)
    except OSError:
        # For a moment no file is at *path*: readers then open the ".new" file.
        os.rename(path, target)


def _open(path: str) -> int:
    if os.path.exists(path):
        # A shim may have been killed between closing the log and recording the end of the run.
        os.chmod(path, WRITING)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, WRITING)
    os.fchmod(file, WRITING)
    return file


def records(stream: bytes, data: bytes, now: int) -> bytes:
    """*data* as log records, all with the same time."""
    prefix = timestamp(now) + b" " + stream
    full, part = prefix + b" F ", prefix + b" P "
    lines = data.split(b"\n")
    rest = lines.pop()
    if len(data) <= MAX_RECORD_BYTES:  # the common case: no line is too long
        text = b"".join([full + line + b"\n" for line in lines])
    else:
        text = b"".join([_split_line(full, part, line) for line in lines])
    while rest:
        text += part + rest[:MAX_RECORD_BYTES] + b"\n"
        rest = rest[MAX_RECORD_BYTES:]
    return text


def _split_line(full: bytes, part: bytes, line: bytes) -> bytes:
    text = b""
    while len(line) > MAX_RECORD_BYTES:
        text += part + line[:MAX_RECORD_BYTES] + b"\n"
        line = line[MAX_RECORD_BYTES:]
    return text + full + line + b"\n"


_cached_second, _cached_text = -1, b""


def timestamp(now: int) -> bytes:
    """RFC 3339 with nanoseconds. The text of the current second is cached."""
    global _cached_second, _cached_text
    second, nanoseconds = divmod(now, 1_000_000_000)
    if second != _cached_second:
        _cached_second = second
        _cached_text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second)).encode()
    return b"%s%09dZ" % (_cached_text, nanoseconds)
