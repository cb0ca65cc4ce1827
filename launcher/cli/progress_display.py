"""What somebody sees of a Framework that runs: plain lines, or on a terminal with a table of its tasks below."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TextIO

from launcher.cli.errors import print_error
from launcher.cli.logs.log_sources import Labels, LogPrinter, LogSource
from launcher.cli.output import framework_summary
from launcher.cli.output.tables import table
from launcher.cli.output.terminal import cells, cut, harmless, is_terminal

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_BELOW = "\x1b[J"


class Screen:
    """Collects what is to be seen, and draws it all at once."""

    def __init__(self, out: TextIO, size: Callable[[], os.terminal_size]) -> None:
        self._out, self._size = out, size
        self._lines: list[str] = []
        self._block: list[str] = []
        #: What stands at the bottom now.
        self._drawn: list[str] = []
        self._changed = False

    @property
    def size(self) -> os.terminal_size:
        return self._size()

    def line(self, text: str) -> None:
        """One more line, above the block; it may be wider than the terminal."""
        self._lines.append(text)
        self._changed = True

    def block(self, lines: Sequence[str]) -> None:
        """What stands at the bottom from now on; too wide or too many lines are cut."""
        if list(lines) != self._block:
            self._block = list(lines)
            self._changed = True

    def draw(self) -> None:
        """Bring the terminal up to date, with one write."""
        if not self._changed:
            return
        columns, rows = self.size
        up = self._rows_of(self._drawn, columns)
        # One column is left free: a line that fills the last one makes some terminals begin another.
        self._drawn = [cut(line, columns - 1) for line in self._block[: max(0, rows - 1)]]
        parts = [_HIDE_CURSOR if self._drawn else "", f"\x1b[{up}A\r{_CLEAR_BELOW}" if up else ""]
        parts += [f"{line}\n" for line in (*self._lines, *self._drawn)]
        parts.append("" if self._drawn else _SHOW_CURSOR)
        self._out.write("".join(parts))
        self._out.flush()
        self._lines, self._changed = [], False

    def close(self) -> None:
        """Leave the lines that have scrolled by, and nothing else."""
        self._block, self._changed = [], True
        self.draw()

    @staticmethod
    def _rows_of(lines: Sequence[str], columns: int) -> int:
        """How many rows the lines take; after the terminal was made narrower, some take more than one."""
        return sum(max(1, -(-cells(line) // max(1, columns))) for line in lines)


Json = dict[str, Any]

#: Seconds between two drawings.
_TICK = 0.1
#: A terminal lower or narrower than this has no room for a table.
_LOWEST, _NARROWEST = 10, 40


class ProgressDisplay(Protocol):
    """Where everything goes that is to be seen."""

    def line(self, source: LogSource, line: bytes) -> None:
        """A task has written this."""
        ...

    def framework(self, framework: Json) -> None:
        """The Framework is now like this."""
        ...

    def say(self, text: str) -> None:
        """The launcher has something to tell."""
        ...

    async def run(self) -> None:
        """Show what there is to be shown until cancelled; then nothing is left that is still to be shown."""
        ...


def show() -> ProgressDisplay:
    """The right one for standard output."""
    return Live() if is_terminal(sys.stdout) else Plain()


class Plain:
    """Lines one after another."""

    def __init__(self) -> None:
        self._lines = LogPrinter(alone=False)

    def line(self, source: LogSource, line: bytes) -> None:
        self._lines.write(source, line)

    def framework(self, framework: Json) -> None:
        pass  # who reads the output later wants to know what was written, not when it looked how

    def say(self, text: str) -> None:
        print_error(text)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Live:
    """Lines that scroll, and a table of the tasks below them."""

    def __init__(self) -> None:
        self._screen = Screen(sys.stdout, shutil.get_terminal_size)
        self._labels = Labels()
        self._frameworks: dict[str, Json] = {}

    def line(self, source: LogSource, line: bytes) -> None:
        self._screen.line(self._labels.of(source) + harmless(line.decode(errors="replace")))

    def framework(self, framework: Json) -> None:
        self._frameworks[framework["metadata"]["name"]] = framework

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            self._screen.line(harmless(text))
        else:
            print_error(text)

    async def run(self) -> None:
        try:
            while True:
                self._screen.block(list(self._block()))
                self._screen.draw()
                await asyncio.sleep(_TICK)
        finally:
            self._screen.close()

    def _block(self) -> Iterator[str]:
        columns, rows = self._screen.size
        # With several Frameworks, each has its share of the lines.
        most = rows // 2 // max(1, len(self._frameworks))
        for framework in self._frameworks.values():
            yield "─" * (columns - 1)
            yield framework_summary.headline(framework, time.time())
            if columns >= _NARROWEST and most >= _LOWEST // 2:
                yield from _tasks(framework, columns - 1, most)


def _tasks(framework: Json, columns: int, most: int) -> Iterator[str]:
    """The table of tasks in at most so many lines: every task, or if they are too many, each role in words."""
    record = framework_summary.record_of(framework)
    if record is None:
        return
    rows = [
        framework_summary.task_row(role, task) for role in record.roles for task in role.tasks[: most + 1]
    ]
    if len(rows) >= most:
        odd = max(0, (most - 1 - len(record.roles)) // max(1, len(record.roles)))
        rows = [row for role in record.roles for row in framework_summary.summary(role, odd)]
    yield from table(framework_summary.TASK_HEADER, [row.cells for row in rows[: most - 1]], columns)
