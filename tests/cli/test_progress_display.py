"""The screen on a terminal that this test plays: rows of text, a cursor, and the few sequences that are used."""

import io
import os
import re

import pytest

from launcher.cli.progress_display import Screen


class Terminal(io.StringIO):
    """What somebody would see, with everything that has scrolled by."""

    def __init__(self, columns: int = 20, rows: int = 8) -> None:
        super().__init__()
        self.columns, self.height = columns, rows
        self.seen: list[str] = [""]
        self.row = self.column = 0
        self.cursor = True
        self.writes = 0

    def size(self) -> os.terminal_size:
        return os.terminal_size((self.columns, self.height))

    def write(self, text: str) -> int:
        self.writes += 1
        for sequence, sign in re.findall(r"(\x1b\[[?0-9]*[A-Za-z])|(.)", text, re.DOTALL):
            self._obey(sequence) if sequence else self._put(sign)
        return len(text)

    def _put(self, sign: str) -> None:
        if sign == "\r":
            self.column = 0
        elif sign == "\n":
            self._next()
        else:
            if self.column == self.columns:
                self._next()
            line = self.seen[self.row].ljust(self.column)
            self.seen[self.row] = line[: self.column] + sign + line[self.column + 1 :]
            self.column += 1

    def _next(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.seen):
            self.seen.append("")

    def _obey(self, sequence: str) -> None:
        match sequence[-1], sequence[2:-1]:
            case "A", count:
                top = max(0, len(self.seen) - self.height)
                assert self.row - int(count) >= top, "the cursor cannot leave the screen"
                self.row -= int(count)
            case "J", "":
                del self.seen[self.row + 1 :]
                self.seen[self.row] = self.seen[self.row][: self.column]
            case "l", "?25":
                self.cursor = False
            case "h", "?25":
                self.cursor = True
            case other:
                raise AssertionError(f"what is {other}?")


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def screen(terminal: Terminal) -> Screen:
    return Screen(terminal, terminal.size)


def test_lines_scroll_above_a_block_that_stays(terminal: Terminal, screen: Screen) -> None:
    screen.block(["table", "row"])
    screen.line("one")
    screen.draw()
    screen.line("two")
    screen.block(["table", "another row"])
    screen.draw()

    assert terminal.seen == ["one", "two", "table", "another row", ""]


def test_a_hundred_drawings_leave_every_line_once(terminal: Terminal, screen: Screen) -> None:
    for number in range(100):
        screen.line(f"line {number}")
        screen.block(["table"] * (number % 5))
        screen.draw()
    screen.close()

    assert terminal.seen == [*(f"line {number}" for number in range(100)), ""]
    assert terminal.cursor


def test_a_line_wider_than_the_terminal_is_left_whole(terminal: Terminal, screen: Screen) -> None:
    screen.block(["table"])
    screen.line("x" * 30)
    screen.draw()
    screen.line("y")
    screen.draw()

    assert terminal.seen == ["x" * 20, "x" * 10, "y", "table", ""]


def test_a_block_is_cut_to_the_size_of_the_terminal(terminal: Terminal, screen: Screen) -> None:
    screen.block(["a" * 100] * 50)
    screen.draw()
    screen.line("line")
    screen.draw()

    assert terminal.seen == ["line", *["a" * 18 + "…"] * 7, ""]


def test_a_block_that_a_narrower_terminal_has_wrapped_is_erased_whole(
    terminal: Terminal, screen: Screen
) -> None:
    screen.line("line")
    screen.block(["b" * 15])
    screen.draw()
    terminal.columns = 10
    terminal.seen, terminal.row = ["line", "b" * 10, "b" * 5, ""], 3
    screen.block(["c"])
    screen.draw()

    assert terminal.seen == ["line", "c", ""]


def test_nothing_is_written_when_nothing_has_changed(terminal: Terminal, screen: Screen) -> None:
    screen.block(["table"])
    screen.draw()
    before = terminal.writes
    screen.block(["table"])
    screen.draw()

    assert terminal.writes == before
