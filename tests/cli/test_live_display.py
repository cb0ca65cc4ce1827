"""The live display on a simulated terminal: rows of text, a cursor, and the control sequences that are used."""

import io
import re

import pytest
from rich.console import Console

from launcher.cli.live_display import LiveScreen
from launcher.cli.output.task_table import TaskRow


class SimulatedTerminal(io.StringIO):
    """The text on the screen, including what has scrolled out of view."""

    def __init__(self, columns: int = 20, rows: int = 8) -> None:
        super().__init__()
        self.columns, self.height = columns, rows
        self.seen: list[str] = [""]
        self.row = self.column = 0
        self.cursor = True
        self.writes = 0

    @property
    def text(self) -> list[str]:
        """The rows up to the last one with text."""
        return "\n".join(line.rstrip() for line in self.seen).rstrip("\n").split("\n")

    def write(self, text: str) -> int:
        self.writes += 1
        for sequence, character in re.findall(r"(\x1b\[[?0-9]*[A-Za-z])|(.)", text, re.DOTALL):
            self._execute(sequence) if sequence else self._put(character)
        return len(text)

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._line_feed()
        else:
            if self.column == self.columns:
                self._line_feed()
            line = self.seen[self.row].ljust(self.column)
            self.seen[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _line_feed(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.seen):
            self.seen.append("")

    def _execute(self, sequence: str) -> None:
        match sequence[-1], sequence[2:-1]:
            case "A", count:
                top = max(0, len(self.seen) - self.height)
                assert self.row - int(count) >= top, "the cursor cannot leave the screen"
                self.row -= int(count)
            case "J", "":
                del self.seen[self.row + 1 :]
                self.seen[self.row] = self.seen[self.row][: self.column]
            case "K", "2":
                self.seen[self.row] = ""
            case "l", "?25":
                self.cursor = False
            case "h", "?25":
                self.cursor = True
            case other:
                raise AssertionError(f"unknown sequence {other}")


@pytest.fixture
def terminal() -> SimulatedTerminal:
    return SimulatedTerminal()


@pytest.fixture
def screen(terminal: SimulatedTerminal) -> LiveScreen:
    console = Console(
        file=terminal,
        force_terminal=True,
        color_system=None,
        width=20,
        height=8,
        legacy_windows=False,
        _environ={},
    )
    return LiveScreen(console)


def test_lines_scroll_above_the_block(terminal: SimulatedTerminal, screen: LiveScreen) -> None:
    screen.set_block(["table", "row"])
    screen.add_line("one")
    screen.draw()
    screen.add_line("two")
    screen.set_block(["table", "another row"])
    screen.draw()

    assert terminal.text == ["one", "two", "table", "another row"]


def test_every_line_is_kept_once_after_a_hundred_updates(
    terminal: SimulatedTerminal, screen: LiveScreen
) -> None:
    for number in range(100):
        screen.add_line(f"line {number}")
        screen.set_block(["table"] * (number % 5))
        screen.draw()
    screen.close()

    assert terminal.text == [*(f"line {number}" for number in range(100))]
    assert terminal.cursor


def test_a_line_wider_than_the_terminal_is_not_cut(terminal: SimulatedTerminal, screen: LiveScreen) -> None:
    screen.set_block(["table"])
    screen.add_line("x" * 30)
    screen.draw()
    screen.add_line("y")
    screen.draw()

    assert terminal.text == ["x" * 20, "x" * 10, "y", "table"]


def test_a_block_is_cut_to_the_size_of_the_terminal(terminal: SimulatedTerminal, screen: LiveScreen) -> None:
    screen.set_block(["a" * 100] * 50)
    screen.draw()
    screen.add_line("line")
    screen.draw()

    assert terminal.text == ["line", *["a" * 19 + "…"] * 8]


def test_a_block_that_a_narrower_terminal_has_wrapped_is_erased_completely(
    terminal: SimulatedTerminal, screen: LiveScreen
) -> None:
    screen.add_line("line")
    screen.set_block(["b" * 15])
    screen.draw()
    terminal.columns = screen._console.width = 10
    terminal.seen, terminal.row, terminal.column = ["line", "b" * 10, "b" * 5], 2, 5
    screen.set_block(["c"])
    screen.draw()

    assert terminal.text == ["line", "c"]


def test_nothing_is_written_when_nothing_has_changed(terminal: SimulatedTerminal, screen: LiveScreen) -> None:
    screen.set_block(["table"])
    screen.draw()
    before = terminal.writes
    screen.set_block(["table"])
    screen.draw()

    assert terminal.writes == before


def test_tasks_are_a_table_with_coloured_states() -> None:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=80, height=24, _environ={}
    )
    screen = LiveScreen(console)
    rows = [TaskRow("worker-0", "Failed", "2 of 2", "node", "7"), TaskRow("worker-1", "Pending", "1", "node")]

    screen.set_block([rows])
    screen.draw()

    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert re.search(r"TASK +STATE +ATTEMPT +NODE +EXIT +REASON", plain)
    assert re.search(r"worker-0 +Failed +2 of 2 +node +7", plain)
    assert "\x1b[31mFailed" in out.getvalue()


def test_no_color_removes_the_colours() -> None:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=80, height=24, _environ={"NO_COLOR": "1", "TERM": "xterm"}
    )
    screen = LiveScreen(console)

    screen.set_block([[TaskRow("worker-0", "Failed")]])
    screen.draw()

    assert "Failed" in out.getvalue()
    assert "\x1b[31m" not in out.getvalue()
