"""
The text of archived logs: lines as ``pods/log?timestamps=true`` returns them.

Each line has a timestamp of RFC 3339 with nine digits, a space and the container's line. If the beginning of the log
is missing, the first line of the text has the number of its bytes.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from launcher.core.pods.log_options import PodLogOptions
from launcher.core.timestamps import parse_rfc3339

_TIMESTAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d) ")
#: A line is at least as long: a timestamp, a space and the end of the line.
_MIN_LINE_BYTES = len("2026-01-31T12:00:00.123456789Z \n")
#: Bytes by which the tail may exceed its limit while it is read.
_SLACK_BYTES = 65536


def max_lines(limit: int) -> int:
    """Returns the ``tailLines`` of a request whose response contains at least the last *limit* bytes of the log."""
    return -(-limit // _MIN_LINE_BYTES)


class LogTail:
    """
    The last lines of a log that is read in chunks.

    It has at most *limit* bytes, in addition to the line about what is missing.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = bytearray()
        self._lines = self._missing_bytes = 0

    def add(self, chunk: bytes) -> None:
        """Appends a chunk of the response to a request for ``max_lines(limit)``."""
        self._text += chunk
        self._lines += chunk.count(b"\n")
        if len(self._text) > self._limit + _SLACK_BYTES:
            self._shorten()

    def text(self) -> bytes:
        """Returns the text to archive."""
        self._shorten()
        if not self._missing_bytes:
            return bytes(self._text)
        # If the response has as many lines as were requested, there may be earlier ones.
        more = "at least " if self._lines >= max_lines(self._limit) else ""
        note = f"launcher: {more}{self._missing_bytes} bytes of the log before this line were not archived\n"
        return _timestamp(self._text) + note.encode() + self._text

    def _shorten(self) -> None:
        """Removes lines at the beginning. Of a single line that is too long, the timestamp and the end stay."""
        size = len(self._text)
        if size <= self._limit:
            return
        start = self._text.find(b"\n", size - self._limit - 1) + 1
        if 0 < start < size:
            del self._text[:start]
        else:
            last_line = self._text.rfind(b"\n", 0, size - 1) + 1
            timestamp = _timestamp(self._text, last_line)
            self._text[: size - self._limit + len(timestamp)] = timestamp
        self._missing_bytes += size - len(self._text)


def starts_after(text: bytes, finished_at: str) -> bool:
    """
    Returns whether the first line was written after the second of that time, so by a later run of the container.

    Both times are of the clock of the container's node. False if one of them is missing.
    """
    first = _timestamp(text)
    try:
        return bool(first) and int(_seconds(first)) > parse_rfc3339(finished_at)
    except ValueError:
        return False


def select(text: bytes, options: PodLogOptions) -> bytes:
    """Returns the part of an archived log that *options* select. There is nothing to follow: the container ended."""
    *lines, rest = text.split(b"\n")
    lines = [line + b"\n" for line in lines] + ([rest] if rest else [])
    if options.since is not None:
        lines = list(_since(lines, options.since))
    if options.tail_lines is not None:
        lines = lines[max(0, len(lines) - options.tail_lines) :]
    if not options.timestamps:
        lines = [line[len(_timestamp(line)) :] for line in lines]
    return b"".join(lines)[: options.limit_bytes]


def _since(lines: Iterable[bytes], since: float) -> Iterator[bytes]:
    """Yields the lines from that time on; one without a timestamp belongs to the line before it."""
    is_included = False
    for line in lines:
        if timestamp := _timestamp(line):
            is_included = _seconds(timestamp) >= since
        if is_included:
            yield line


def _seconds(timestamp: bytes) -> float:
    return datetime.fromisoformat(timestamp.decode().strip()).timestamp()


def _timestamp(text: bytes | bytearray, position: int = 0) -> bytes:
    """Returns the timestamp at that position, with its space; empty if there is none."""
    found = _TIMESTAMP.match(text, position)
    return b"" if found is None else bytes(found[0])
