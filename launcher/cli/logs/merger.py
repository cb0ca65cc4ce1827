"""Logs of several tasks as one, ordered by the time of each line."""

import heapq
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import IO

from launcher.cli.logs.log_sources import LogSource, WriteLine

#: Files that are merged at once: fewer than a process may open.
_MAX_FILES = 200
#: The length of a time such as ``2026-01-31T12:00:00.123456789Z``.
_TIME_LENGTH = 30

#: Passes each line of a source's log, which begins with its time, to the function.
CopyLog = Callable[[LogSource, WriteLine], Awaitable[None]]


async def merge_logs(sources: Sequence[LogSource], copy: CopyLog, write: WriteLine) -> None:
    """
    Writes the lines of all logs in the order of their times.

    The logs are written to temporary files first: there may be more of them than open connections, and they may be
    larger than memory.
    """
    with ExitStack() as files:
        groups = []
        for first in range(0, len(sources), _MAX_FILES):
            groups.append(files.enter_context(tempfile.TemporaryFile()))
            await _merge_group(sources, first, copy, groups[-1])
        for _, number, line in heapq.merge(*map(_records, groups)):
            write(sources[number], line)


async def _merge_group(sources: Sequence[LogSource], first: int, copy: CopyLog, merged: IO[bytes]) -> None:
    """Writes the records of the group of sources that begins with *first* to *merged*, in order."""
    with ExitStack() as group:
        logs = []
        for number, source in enumerate(sources[first : first + _MAX_FILES], first):
            log = group.enter_context(tempfile.TemporaryFile())
            await copy(source, _recorder(log, number))
            logs.append(log)
        for time, number, line in heapq.merge(*map(_records, logs)):
            merged.write(b"%b %d %b\n" % (time, number, line))


def _recorder(file: IO[bytes], number: int) -> WriteLine:
    """Writes records to *file*: the time to sort by, the number of the source, and the line."""

    def record(_: LogSource, line: bytes) -> None:
        file.write(b"%b %d %b\n" % (_sort_key(line.partition(b" ")[0]), number, line))

    return record


def _records(file: IO[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    file.seek(0)
    for record in file:
        time, number, line = record.removesuffix(b"\n").split(b" ", 2)
        yield time, int(number), line


def _sort_key(time: bytes) -> bytes:
    """The time in UTC with nine digits; kubelets may use the zone of their node, and fewer digits."""
    if len(time) == _TIME_LENGTH and time.endswith(b"Z"):
        return time
    try:
        parsed = datetime.fromisoformat(time.decode())
    except ValueError:  # not a time: the line stays after the one before it
        return b""
    return f"{parsed.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z".encode()
