"""A terminal with a part that stays: lines scroll by above, and a few at the bottom are drawn over again."""

import os
from collections.abc import Callable, Sequence
from typing import TextIO

from launcher.cli.terminal import cells, cut

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
