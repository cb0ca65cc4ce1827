"""The progress of running Frameworks on a terminal: logs that scroll above a live table of the tasks."""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from launcher.cli.errors import print_error
from launcher.cli.logs.log_sources import Labels, LogSource
from launcher.cli.output.framework_summary import headline, is_waiting
from launcher.cli.output.task_table import TASK_HEADER, TaskRow, role_tables
from launcher.cli.output.terminal import sanitize

Json = dict[str, Any]

_REFRESH_SECONDS = 0.1
#: A smaller terminal shows no table.
_MIN_LINES, _MIN_COLUMNS = 10, 40
_GAP = 3
_STATE_STYLES = {"Running": "green", "Succeeded": "green", "Failed": "red", "Retrying": "yellow"}


class LiveScreen:
    """Lines that scroll above a block at the bottom. Both are collected and drawn with one write."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[str] = []
        self._block: list[str | list[TaskRow]] = []
        self._columns = console.width
        self._changed = False
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    @property
    def columns(self) -> int:
        return self._console.width

    @property
    def lines(self) -> int:
        return self._console.height

    def add_line(self, text: str) -> None:
        """Add a line above the block; it may be wider than the terminal."""
        self._lines.append(text)
        self._changed = True

    def set_block(self, parts: Sequence[str | list[TaskRow]]) -> None:
        """Replace the block: lines and tables of tasks, cut to the size of the terminal."""
        if list(parts) != self._block:
            self._block, self._changed = list(parts), True

    def draw(self) -> None:
        """Update the terminal, if anything has changed."""
        if not self._changed:
            return
        self._live.start()
        lines, self._lines, self._changed = self._lines, [], False
        # The console writes at the end of the block.
        with self._console:
            self._erase_wrapped_rows()
            if lines:
                self._console.print(_Unchanged("\n".join(lines)), soft_wrap=True)
            self._live.update(Group(*map(self._renderable, self._block)), refresh=True)

    def close(self) -> None:
        """Remove the block and keep the lines."""
        self._changed, self._block = True, []
        self.draw()
        self._live.stop()

    def _renderable(self, part: str | list[TaskRow]) -> RenderableType:
        if isinstance(part, str):
            return Text(part, no_wrap=True, overflow="ellipsis")
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="")
        for title in TASK_HEADER:
            table.add_column(title, no_wrap=True, overflow="ellipsis")
        for row in part:
            style = _STATE_STYLES.get(row.state.partition(" ")[0], "")
            table.add_row(*(Text(cell, style if cell is row.state else "") for cell in row))
        return table

    def _erase_wrapped_rows(self) -> None:
        """Erase the rows that a narrower terminal has added to the block by wrapping its lines."""
        columns, before = self._console.width, self._columns
        self._columns = columns
        if columns >= before or self._live.renderable is None:
            return
        options = self._console.options.update(width=before)
        drawn = self._console.render_lines(self._live.renderable, options, pad=False)
        widths = [Segment.get_line_length(line) for line in drawn]
        added = sum(max(1, -(-width // columns)) - 1 for width in widths)
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
        if added:
            self._console.control(
                Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *up * added)
            )


class _Unchanged:
    """Text that is written as it is, with its own colours."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self._text)
        yield Segment.line()


class TableDisplay:
    """Scrolls the lines of logs above a table of the tasks. See ``ProgressDisplay``."""

    def __init__(self) -> None:
        self._screen = LiveScreen(Console(file=sys.stdout, highlight=False))
        self._labels = Labels()
        self._frameworks: dict[str, Json] = {}
        #: The most important finding for a Framework, by its name.
        self._findings: dict[str, str] = {}

    def show_line(self, source: LogSource, line: bytes) -> None:
        self._screen.add_line(self._labels.label_of(source) + sanitize(line.decode(errors="replace")))

    def show_framework(self, framework: Json) -> None:
        self._frameworks[framework["metadata"]["name"]] = framework

    def show_message(self, text: str) -> None:
        if sys.stderr.isatty():
            self._screen.add_line(sanitize(text))
        else:
            print_error(text)

    def show_finding(self, framework: str, finding: str) -> None:
        self._findings[framework] = finding

    async def run(self) -> None:
        try:
            while True:
                self._screen.set_block(list(self._block()))
                self._screen.draw()
                await asyncio.sleep(_REFRESH_SECONDS)
        finally:
            self._screen.close()

    def _block(self) -> Iterator[str | list[TaskRow]]:
        columns, lines = self._screen.columns, self._screen.lines
        # The Frameworks share half of the lines.
        limit = lines // 2 // max(1, len(self._frameworks))
        now = time.time()
        for framework in self._frameworks.values():
            yield "─" * (columns - 1)
            yield headline(framework, now)
            if (finding := self._findings.get(framework["metadata"]["name"])) and is_waiting(framework):
                yield f"  {finding}"
            if columns >= _MIN_COLUMNS and limit >= _MIN_LINES // 2:
                yield from _tables(framework, limit, now)


def _tables(framework: Json, limit: int, now: float) -> Iterator[list[TaskRow]]:
    """The table of tasks in at most *limit* lines: every task or, if they are too many, a summary of each role."""
    roles = role_tables(framework, now)
    if not roles:
        return
    rows = [row for role in roles for row in role.rows(limit + 1)]
    if len(rows) >= limit:
        exceptions = max(0, (limit - 1 - len(roles)) // len(roles))
        rows = [row for role in roles for row in role.summary(exceptions)]
    yield rows[: limit - 1]
