"""Tables and log lines in the format of Arena."""

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence

from launcher.cli.errors import print_error


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of the table, each column as wide as its widest cell."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def table_with_rule(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The same with a line of dashes below the header, two spaces from the left."""
    dashes = ["-" * len(title) for title in header]
    return (f"  {line}" for line in table(header, [dashes, *rows]))


_LEVELS = ("debug", "info", "warn", "error")


class ArenaLogger:
    """Prints messages of at least the level of --loglevel, with the seconds since the start of the command."""

    def __init__(self, args: Namespace, clock: Callable[[], float] = time.monotonic) -> None:
        self._minimum, self._clock, self._start = _LEVELS.index(args.loglevel), clock, clock()

    def info(self, text: str) -> None:
        self._log("info", text)

    def warn(self, text: str) -> None:
        self._log("warn", text)

    def _log(self, level: str, text: str) -> None:
        if _LEVELS.index(level) >= self._minimum:
            print_error(f"{level.upper()[:4]}[{int(self._clock() - self._start):04d}] {text}")
