"""
Reads the files of one run's log as one.

The newest is at the log's own path; rotated files are next to it as ``.1`` (the newest of them), ``.2``, and so on.
``launcher.node.shim.log_writer`` documents their format.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO

from launcher.node.shim.log_writer import timestamp

#: The positions in ``2024-05-01T12:00:00.123456789Z stdout F a line``, whose prefix has a fixed length.
_TIME_END, _TAG, _TEXT = 30, 38, 40
_BLOCK_BYTES = 65536


class LogReader:
    """An open log; reading continues with what is appended later."""

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError if there is none."""
        self._path = path
        self._files = _open_files(path)
        #: The beginning of an incomplete record.
        self._partial = b""

    def close(self) -> None:
        for file in self._files:
            file.close()

    def size(self) -> int:
        """The size of the open files in bytes."""
        return sum(os.fstat(file.fileno()).st_size for file in self._files)

    def skip_to_last(self, lines: int) -> None:
        """Skips all but the last *lines*."""
        index, end = 0, 0
        for seen, (file_index, line_end) in enumerate(self._line_ends_backwards()):
            if seen == lines:
                index, end = file_index, line_end
                break
        for file in self._files:
            file.seek(0)
        for file in self._files[:index]:
            file.close()
        del self._files[:index]
        self._files[0].seek(end)

    def _line_ends_backwards(self) -> Iterator[tuple[int, int]]:
        """The file and the position of the end of every line, the last line first, which may be incomplete."""
        is_last = True
        for index in range(len(self._files) - 1, -1, -1):
            for record, end in _records_backwards(self._files[index]):
                if record[_TAG : _TAG + 1] == b"F" or is_last:
                    yield index, end
                is_last = False

    def read(self) -> list[bytes]:
        """The next records; empty at the current end of the log."""
        while True:
            data = self._files[0].read(_BLOCK_BYTES)
            if data:
                *records, self._partial = (self._partial + data).split(b"\n")
                if records:
                    return records
            elif not self._next_file():
                return []

    def _next_file(self) -> bool:
        """Moves to the next file after the first was read. Returns False if there is none."""
        if len(self._files) == 1:
            self._files += _open_newer_files(self._path, self._files[0])
            # The writer may have appended to the first file before the rotation.
            if len(self._files) > 1 and _has_more(self._files[0]):
                return True
        if len(self._files) == 1:
            return False
        self._files.pop(0).close()
        self._partial = b""
        return True

    def finished(self) -> bool:
        """Whether nothing more will be written; what was written before may still have to be read."""
        for _ in range(2):
            try:
                return not os.stat(self._path).st_mode & 0o200
            except FileNotFoundError:
                # During a rotation on a filesystem without hard links the file is missing for a moment.
                if self._path.with_name(f"{self._path.name}.new").exists():
                    return False
        return True


class LogLineDecoder:
    """Decodes records to the container's output."""

    def __init__(self, *, timestamps: bool = False, since: float | None = None) -> None:
        self._timestamps = timestamps
        self._since = timestamp(int(since * 1e9)) if since is not None else b""
        self._at_line_start = True

    def decode(self, records: Sequence[bytes]) -> bytes:
        """The text of *records*, with a timestamp before each line if configured."""
        text = []
        for record in records:
            if record[:_TIME_END] < self._since:
                continue
            if self._timestamps and self._at_line_start:
                text.append(record[:_TIME_END] + b" ")
            text.append(record[_TEXT:])
            self._at_line_start = record[_TAG : _TAG + 1] == b"F"
            if self._at_line_start:
                text.append(b"\n")
        return b"".join(text)


def _open_files(path: Path) -> list[BinaryIO]:
    """All files of the log, the oldest first."""
    # The newest is opened first: if it is rotated meanwhile, it is found again under its new name and skipped.
    files: list[BinaryIO] = [path.open("rb")]
    opened = {_identity(files[0])}
    for number in count(1):
        try:
            file = path.with_name(f"{path.name}.{number}").open("rb")
        except FileNotFoundError:
            break
        if _identity(file) in opened:
            file.close()
            continue
        opened.add(_identity(file))
        files.append(file)
    return files[::-1]


def _open_newer_files(path: Path, current: BinaryIO) -> list[BinaryIO]:
    """The files that are newer than *current*; all files if that one was removed."""
    try:
        files = _open_files(path)
    except FileNotFoundError:
        return []
    for index, file in enumerate(files):
        if _identity(file) == _identity(current):
            for old in files[: index + 1]:
                old.close()
            return files[index + 1 :]
    return files


def _identity(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


def _has_more(file: BinaryIO) -> bool:
    return os.fstat(file.fileno()).st_size > file.tell()


def _records_backwards(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Every complete record and the position of its end, the last one first."""
    position = os.fstat(file.fileno()).st_size
    rest, is_complete = b"", False
    while position > 0:
        step = min(_BLOCK_BYTES, position)
        position -= step
        file.seek(position)
        rest = file.read(step) + rest
        if not is_complete:
            # After the last line end there is a record that is being written.
            rest = rest[: rest.rfind(b"\n") + 1]
            is_complete = bool(rest)
        stop = len(rest)
        while (cut := rest.rfind(b"\n", 0, max(0, stop - 1))) >= 0:
            yield rest[cut + 1 : stop - 1], position + stop
            stop = cut + 1
        rest = rest[:stop]
    if rest:
        yield rest[:-1], len(rest)
