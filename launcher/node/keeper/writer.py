"""
Writes a container's log in the CRI's format: ``2024-05-01T12:00:00.123456789Z stdout F a line``.

P in place of F is a part of a line; the next record of that stream goes on with it. Nothing is held back: what was
read is written, so that neither a prompt without an end of line nor the death of a keeper hides anything.
"""

import os
import time

#: The longest content of one record.
LONGEST = 16 * 1024
#: A log that nobody will write to any more may be read only: so a reader knows that it has seen all.
WRITING, FINISHED = 0o640, 0o440


class LogWriter:
    """The log of one run. A full disk loses lines, never the run; how many is told in the log as soon as it can be."""

    __slots__ = ("_broken", "_file", "_keep", "_most", "_path", "_size", "lost")

    def __init__(self, path: str, most: int, keep: int) -> None:
        """The log at *path*, continued when there is one. At *most* bytes a file is put aside, *keep* of them."""
        self._path, self._most, self._keep = path, most, keep
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = _opened(path)
        self._size = os.fstat(self._file).st_size
        #: Lines that could not be written.
        self.lost = 0
        self._broken = ""

    def write(self, stream: bytes, data: bytes, now: int) -> None:
        """Add *data*, read from *stream* at *now* (nanoseconds since 1970)."""
        if self.lost and not self._tell_loss(now):
            self.lost += max(1, data.count(b"\n"))
            return
        text = records(stream, data, now)
        if self._size + len(text) > self._most and self._size:
            self._rotate()
        if not self._append(text):
            self.lost += max(1, data.count(b"\n"))

    def close(self, now: int) -> None:
        """Nothing more comes."""
        if self.lost:
            self._tell_loss(now)
        os.fchmod(self._file, FINISHED)
        os.close(self._file)

    def abandon(self) -> None:
        """As if there had been no run: an empty log goes."""
        os.close(self._file)
        if not self._size:
            os.unlink(self._path)

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
        return True

    def _rotate(self) -> None:
        full, new = self._file, f"{self._path}.new"
        try:
            # Made before anything is moved: without room for it, all stays as it is.
            self._file = _opened(new)
            for number in range(self._keep, 1, -1):
                if os.path.exists(newer := f"{self._path}.{number - 1}"):
                    os.rename(newer, f"{self._path}.{number}")
            # At every moment there is a file at the log's own path: for its readers none would be the end.
            if self._keep:
                os.link(self._path, f"{self._path}.1")
            os.rename(new, self._path)
        except OSError as error:
            self._broken = os.strerror(error.errno or 0).lower()
        else:
            os.close(full)
            self._size = 0


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
