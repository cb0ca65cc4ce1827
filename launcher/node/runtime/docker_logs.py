"""
Copies the output of containers from the engine to their log files, without loss or repetition.

Another launcher continues where the last one stopped: it counts the bytes of each stream in the files, and skips as
many of the engine's. Times are not sufficient, since Podman's have whole seconds.
"""

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain, count
from pathlib import Path
from time import time_ns
from typing import Final

import orjson

from launcher.node.runtime.docker_engine import DockerEngine
from launcher.node.shim.log_limits import LogLimits
from launcher.node.shim.log_writer import FINISHED, LogWriter

_STREAMS: Final = {1: b"stdout", 2: b"stderr"}
_HEADER_BYTES = 8
#: The positions in a record, see ``log_writer``.
_STREAM_BEGIN, _STREAM_END, _TAG, _TEXT = 31, 37, 38, 40
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A part of the output of a container: a line, or a part of a long one."""

    stream: bytes
    #: Nanoseconds since 1970.
    time: int
    text: bytes


async def log_entries(
    engine: DockerEngine, container: str, *, follow: bool, tty: bool = False
) -> AsyncIterator[LogEntry]:
    """Yields the output of the container from its beginning; with *follow*, until it ends."""
    params = {
        "stdout": "1",
        "stderr": "1",
        "timestamps": "0" if tty else "1",
        "follow": "1" if follow else "0",
    }
    async with engine.stream(f"containers/{container}/logs", params) as content:
        if tty:
            # Without frames, so that a time could not be distinguished from output.
            while block := await content.readany():
                yield LogEntry(b"stdout", time_ns(), block)
            return
        data = b""
        while block := await content.readany():
            data += block
            begin = 0
            while len(data) >= begin + _HEADER_BYTES:
                end = begin + _HEADER_BYTES + int.from_bytes(data[begin + 4 : begin + _HEADER_BYTES])
                if len(data) < end:
                    break
                yield _entry(data[begin], data[begin + _HEADER_BYTES : end])
                begin = end
            data = data[begin:]


def _entry(stream: int, frame: bytes) -> LogEntry:
    time, _, text = frame.partition(b" ")
    return LogEntry(_STREAMS.get(stream, b"stderr"), _nanoseconds(time), text)


def _nanoseconds(text: bytes) -> int:
    """``2024-05-01T12:00:00.123456789Z`` as nanoseconds since 1970; the fraction may be missing."""
    fraction = text[20:].rstrip(b"Z").partition(b"+")[0].partition(b"-")[0] if text[19:20] == b"." else b""
    zone = text[19 + (len(fraction) + 1 if fraction else 0) :]
    return _seconds(text[:19] + zone) * 1_000_000_000 + int(fraction[:9].ljust(9, b"0") or b"0")


@lru_cache(maxsize=16)
def _seconds(text: bytes) -> int:
    return int(datetime.fromisoformat(text.decode()).timestamp())


@dataclass(frozen=True, slots=True)
class _Position:
    """The bytes of each stream that precede a place in a log."""

    stdout: int = 0
    stderr: int = 0

    def after(self, stream: bytes, number: int) -> "_Position":
        if stream == b"stdout":
            return replace(self, stdout=self.stdout + number)
        return replace(self, stderr=self.stderr + number)


class ResumableLogWriter(LogWriter):
    """
    A log whose writer can be replaced by another one at any time.

    A file next to the log has the position of each stream at some place of it; records after that place are counted.
    """

    __slots__ = ("_checkpoint", "_position", "_stored")

    def __init__(self, path: Path, limits: LogLimits, group: str) -> None:
        self._checkpoint = path.with_name(f"{path.name}.position")
        self._position = _read_position(path, self._checkpoint)
        self._stored = False
        super().__init__(str(path), limits, group)

    @property
    def position(self) -> dict[bytes, int]:
        """The bytes of each stream that were written, or lost."""
        return {b"stdout": self._position.stdout, b"stderr": self._position.stderr}

    def write(self, stream: bytes, data: bytes, now: int) -> None:
        lost, file = self.lost, self._file
        super().write(stream, data, now)
        self._position = self._position.after(stream, len(data))
        # A lost line, the message about it, and the files before a rotation are not found in the file again.
        if lost or self.lost or self._file != file:
            self._store()

    def close(self, now: int) -> None:
        super().close(now)
        self._checkpoint.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Closes the log, which another writer continues."""
        os.close(self._file)
        self._limits.leave(self._group)

    def _store(self) -> None:
        state = [os.fstat(self._file).st_ino, self._size, self._position.stdout, self._position.stderr]
        new = self._checkpoint.with_name(f"{self._checkpoint.name}.new")
        with suppress(OSError):  # a full disk: then lines may be repeated after a restart
            new.write_bytes(orjson.dumps(state))
            new.replace(self._checkpoint)


def _read_position(path: Path, checkpoint: Path) -> _Position:
    """The position at the end of the log at *path*, whose newest file comes first."""
    try:
        inode, size, stdout, stderr = orjson.loads(checkpoint.read_bytes())
    except (OSError, ValueError):
        inode, size, stdout, stderr = 0, 0, 0, 0
    uncounted: list[tuple[Path, int]] = []
    position = _Position()
    for file in chain([path], (path.with_name(f"{path.name}.{number}") for number in count(1))):
        try:
            status = file.stat()
        except FileNotFoundError:
            break
        if status.st_ino == inode:
            position = _Position(stdout, stderr)
            uncounted.append((file, size))
            break
        uncounted.append((file, 0))
    for file, begin in uncounted:
        position = _count(file, begin, position)
    return position


def _count(file: Path, begin: int, position: _Position) -> _Position:
    """The position after the records of *file* from *begin*. An incomplete record at its end is removed."""
    numbers = {b"stdout": 0, b"stderr": 0}
    end = begin
    with file.open("rb") as reader:
        reader.seek(begin)
        for record in reader:
            if not record.endswith(b"\n"):
                break
            end += len(record)
            is_line = record[_TAG : _TAG + 1] == b"F"
            numbers[record[_STREAM_BEGIN:_STREAM_END]] += len(record) - 1 - _TEXT + is_line
    if end < file.stat().st_size:
        os.truncate(file, end)
    return position.after(b"stdout", numbers[b"stdout"]).after(b"stderr", numbers[b"stderr"])


def is_complete(path: Path) -> bool:
    """Whether all output was copied to the log at *path*."""
    try:
        return path.stat().st_mode & 0o777 == FINISHED
    except FileNotFoundError:
        return False


async def copy_log(entries: AsyncIterator[LogEntry], writer: ResumableLogWriter) -> None:
    """Writes the entries, which begin with the container's first output, that were not written before."""
    skipped = writer.position
    async for entry in entries:
        skip = min(skipped[entry.stream], len(entry.text))
        skipped[entry.stream] -= skip
        if text := entry.text[skip:]:
            writer.write(entry.stream, text, entry.time)
