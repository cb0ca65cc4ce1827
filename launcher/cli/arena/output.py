"""What Arena tells its users beside the answer, in the form that they know."""

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence

from launcher.cli.errors import print_error


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of the table, each column as wide as it has to be."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def ruled(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The same with a line of dashes below the header, two spaces from the left."""
    dashes = ["-" * len(title) for title in header]
    return (f"  {line}" for line in table(header, [dashes, *rows]))


_LEVELS = ("debug", "info", "warn", "error")


class ArenaLogger:
    """Tells what is of the wanted level, with the seconds since the command began."""

    def __init__(self, given: Namespace, clock: Callable[[], float] = time.monotonic) -> None:
        self._least, self._clock, self._start = _LEVELS.index(given.loglevel), clock, clock()

    def info(self, text: str) -> None:
        self._tell("info", text)

    def warn(self, text: str) -> None:
        self._tell("warn", text)

    def _tell(self, level: str, text: str) -> None:
        if _LEVELS.index(level) >= self._least:
            print_error(f"{level.upper()[:4]}[{int(self._clock() - self._start):04d}] {text}")
