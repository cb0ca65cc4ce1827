"""The progress of running Frameworks: plain lines, or on a terminal also a live table of the tasks below them."""

import asyncio
import sys
from typing import Any, Protocol

from launcher.cli.command import load_module
from launcher.cli.errors import print_error
from launcher.cli.logs.log_sources import LogPrinter, LogSource
from launcher.cli.output.terminal import is_terminal

Json = dict[str, Any]


class ProgressDisplay(Protocol):
    """Shows the logs and the state of Frameworks."""

    def show_line(self, source: LogSource, line: bytes) -> None:
        """Show a line of a task's log."""
        ...

    def show_framework(self, framework: Json) -> None:
        """Show the new state of the Framework."""
        ...

    def show_message(self, text: str) -> None:
        """Show a message of the launcher."""
        ...

    def show_finding(self, framework: str, finding: str) -> None:
        """Show the most important finding for a Framework that waits."""
        ...

    async def run(self) -> None:
        """Update the display until cancelled; then everything has been shown."""
        ...


def make_display() -> ProgressDisplay:
    """The display for standard output. Only the one for a terminal imports rich."""
    if not is_terminal(sys.stdout):
        return LineDisplay()
    display: ProgressDisplay = load_module("live_display").TableDisplay()
    return display


class LineDisplay:
    """Prints the lines of logs, and messages to stderr."""

    def __init__(self) -> None:
        self._printer = LogPrinter(is_single=False)

    def show_line(self, source: LogSource, line: bytes) -> None:
        self._printer.write(source, line)

    def show_framework(self, framework: Json) -> None:
        pass  # a file or another program reads the logs only

    def show_message(self, text: str) -> None:
        print_error(text)

    def show_finding(self, framework: str, finding: str) -> None:
        print_error(f"{framework}: {finding}")

    async def run(self) -> None:
        await asyncio.Event().wait()
