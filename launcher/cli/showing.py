"""What somebody sees of a Framework that runs: plain lines, or on a terminal with a table of its tasks below."""

import asyncio
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

from launcher.cli import states
from launcher.cli.complaint import tell
from launcher.cli.loglines import Labels, Lines, Source
from launcher.cli.screen import Screen
from launcher.cli.tables import table
from launcher.cli.terminal import harmless, is_terminal

Json = dict[str, Any]

#: Seconds between two drawings.
_TICK = 0.1
#: A terminal lower or narrower than this has no room for a table.
_LOWEST, _NARROWEST = 10, 40


class Show(Protocol):
    """Where everything goes that is to be seen."""

    def line(self, source: Source, line: bytes) -> None:
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


def show() -> Show:
    """The right one for standard output."""
    return Live() if is_terminal(sys.stdout) else Plain()


class Plain:
    """Lines one after another."""

    def __init__(self) -> None:
        self._lines = Lines(alone=False)

    def line(self, source: Source, line: bytes) -> None:
        self._lines.write(source, line)

    def framework(self, framework: Json) -> None:
        pass  # who reads the output later wants to know what was written, not when it looked how

    def say(self, text: str) -> None:
        tell(text)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Live:
    """Lines that scroll, and a table of the tasks below them."""

    def __init__(self) -> None:
        self._screen = Screen(sys.stdout, shutil.get_terminal_size)
        self._labels = Labels()
        self._frameworks: dict[str, Json] = {}

    def line(self, source: Source, line: bytes) -> None:
        self._screen.line(self._labels.of(source) + harmless(line.decode(errors="replace")))

    def framework(self, framework: Json) -> None:
        self._frameworks[framework["metadata"]["name"]] = framework

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            self._screen.line(harmless(text))
        else:
            tell(text)

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
            yield states.headline(framework, time.time())
            if columns >= _NARROWEST and most >= _LOWEST // 2:
                yield from _tasks(framework, columns - 1, most)


def _tasks(framework: Json, columns: int, most: int) -> Iterator[str]:
    """The table of tasks in at most so many lines: every task, or if they are too many, each role in words."""
    record = states.record_of(framework)
    if record is None:
        return
    rows = [states.task_row(role, task) for role in record.roles for task in role.tasks[: most + 1]]
    if len(rows) >= most:
        odd = max(0, (most - 1 - len(record.roles)) // max(1, len(record.roles)))
        rows = [row for role in record.roles for row in states.summary(role, odd)]
    yield from table(states.TASK_HEADER, [row.cells for row in rows[: most - 1]], columns)
