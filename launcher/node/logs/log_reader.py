"""
The files of one run's log, read as one.

The newest is at the log's own path; those put aside are beside it as ``.1`` (the newest of them), ``.2``, and so on.
The keeper's ``writer`` says what is in them.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO

from launcher.node.shim.log_writer import stamp

#: ``2024-05-01T12:00:00.123456789Z stdout F a line``: every part before the line is of one length.
_STAMP, _TAG, _TEXT = 30, 38, 40
_BLOCK = 65536


class LogReader:
    """An open log: what is in it now, and, by reading on, what comes."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError when there is none."""
        self._path = path
        self._files = _opened(path)
        #: A record that is not whole yet.
        self._begun = b""

    def close(self) -> None:
        for file in self._files:
            file.close()

    def size(self) -> int:
        """Bytes in all that is open."""
        return sum(os.fstat(file.fileno()).st_size for file in self._files)

    def skip_to_last(self, lines: int) -> None:
        """Leave out all but the last *lines*."""
        place, end = 0, 0
        for found, (place_of_end, end_of_line) in enumerate(self._line_ends_from_behind()):
            if found == lines:
                place, end = place_of_end, end_of_line
                break
        for file in self._files:
            file.seek(0)
        for file in self._files[:place]:
            file.close()
        del self._files[:place]
        self._files[0].seek(end)

    def _line_ends_from_behind(self) -> Iterator[tuple[int, int]]:
        """Which file, and where in it, every line ends, the last line first, though it may not be finished."""
        last = True
        for place in range(len(self._files) - 1, -1, -1):
            for record, end in _records_from_behind(self._files[place]):
                if record[_TAG : _TAG + 1] == b"F" or last:
                    yield place, end
                last = False

    def read(self) -> list[bytes]:
        """The next records; none when all there is has been read."""
        while True:
            data = self._files[0].read(_BLOCK)
            if data:
                *records, self._begun = (self._begun + data).split(b"\n")
                if records:
                    return records
            elif not self._next():
                return []

    def _next(self) -> bool:
        """Whether there is another file to go on with, after all of the first has been read."""
        if len(self._files) == 1:
            self._files += _newer_than(self._path, self._files[0])
            # The writer may have written between the last look and the change.
            if len(self._files) > 1 and _has_more(self._files[0]):
                return True
        if len(self._files) == 1:
            return False
        self._files.pop(0).close()
        self._begun = b""
        return True

    def finished(self) -> bool:
        """Whether nobody will write to it any more. What was written before may still have to be read."""
        for _ in range(2):
            try:
                return not os.stat(self._path).st_mode & 0o200
            except FileNotFoundError:
                # Without hard links a log has no file of its own name for a moment of its rotation.
                if self._path.with_name(f"{self._path.name}.new").exists():
                    return False
        return True


class LogLineDecoder:
    """Turns records back into what the container wrote."""

    def __init__(self, *, timestamps: bool = False, since: float | None = None) -> None:
        self._timestamps = timestamps
        self._since = stamp(int(since * 1e9)) if since is not None else b""
        self._fresh = True

    def of(self, records: Sequence[bytes]) -> bytes:
        """Their text, with the time before each line if that was asked for."""
        text = []
        for record in records:
            if record[:_STAMP] < self._since:
                continue
            if self._timestamps and self._fresh:
                text.append(record[:_STAMP] + b" ")
            text.append(record[_TEXT:])
            self._fresh = record[_TAG : _TAG + 1] == b"F"
            if self._fresh:
                text.append(b"\n")
        return b"".join(text)


def _opened(path: Path) -> list[BinaryIO]:
    """Every file of the log, the oldest first."""
    # The newest first: one that is put aside meanwhile is met again under its new name, and left out.
    files: list[BinaryIO] = [path.open("rb")]
    known = {_identity(files[0])}
    for number in count(1):
        try:
            file = path.with_name(f"{path.name}.{number}").open("rb")
        except FileNotFoundError:
            break
        if _identity(file) in known:
            file.close()
            continue
        known.add(_identity(file))
        files.append(file)
    return files[::-1]


def _newer_than(path: Path, known: BinaryIO) -> list[BinaryIO]:
    """The files that were begun after the *known* one; all there are when that one is no longer kept."""
    try:
        files = _opened(path)
    except FileNotFoundError:
        return []
    for place, file in enumerate(files):
        if _identity(file) == _identity(known):
            for old in files[: place + 1]:
                old.close()
            return files[place + 1 :]
    return files


def _identity(file: BinaryIO) -> tuple[int, int]:
    facts = os.fstat(file.fileno())
    return facts.st_dev, facts.st_ino


def _has_more(file: BinaryIO) -> bool:
    return os.fstat(file.fileno()).st_size > file.tell()


def _records_from_behind(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Every whole record and where it ends, the last one first."""
    at = os.fstat(file.fileno()).st_size
    rest, whole = b"", False
    while at > 0:
        step = min(_BLOCK, at)
        at -= step
        file.seek(at)
        rest = file.read(step) + rest
        if not whole:
            # What follows the last end of line is a record that is being written.
            rest = rest[: rest.rfind(b"\n") + 1]
            whole = bool(rest)
        stop = len(rest)
        while (cut := rest.rfind(b"\n", 0, max(0, stop - 1))) >= 0:
            yield rest[cut + 1 : stop - 1], at + stop
            stop = cut + 1
        rest = rest[:stop]
    if rest:
        yield rest[:-1], len(rest)
