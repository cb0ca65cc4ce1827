"""
Records ``docs/images/terminal.svg``: a terminal while a Framework runs.

Run it with ``make picture`` after a change of what the command prints. It is not part of ``make docs``, because the
order of the lines differs from run to run.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
PICTURE = PROJECT / "docs/images/terminal.svg"
COMMAND = "launcher run examples/training.yaml --image training:1=examples/training --node gpu0 --node gpu1"

_COLUMNS, _LINES = 100, 40
_FONT_SIZE, _LINE_HEIGHT, _MARGIN, _TITLE_BAR = 14, 20, 20, 36
_CHARACTER_WIDTH = 8.43
_TEXT, _DIM, _PROMPT = "#e6edf3", "#7d8590", "#7ee787"
#: The colours of a terminal by their ANSI codes.
_COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea"}
_BUTTONS = ("#ff5f57", "#febc2e", "#28c840")

_TOKEN = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|(\r|\n)|([^\x1b\r\n]+)")


class Cell(NamedTuple):
    """A character and its colour."""

    character: str
    colour: str


Row = list[Cell]


class Screen:
    """The rows of a terminal, with the control sequences that the live table uses."""

    def __init__(self) -> None:
        self.rows: list[Row] = [[]]
        self._row, self._column, self._colour = 0, 0, _TEXT

    def write(self, text: str) -> None:
        for arguments, command, control, characters in _TOKEN.findall(text):
            if characters:
                self._print(characters)
            elif control:
                self._column = 0
                self._row += control == "\n"
                self.rows += [[] for _ in range(self._row + 1 - len(self.rows))]
            elif command == "m":
                self._colour = _COLOURS.get(int(arguments or 0), _TEXT)
            elif command == "A":
                self._row = max(0, self._row - int(arguments or 1))
            elif command == "K":
                self.rows[self._row] = []

    def _print(self, characters: str) -> None:
        row = self.rows[self._row]
        row += [Cell(" ", _TEXT)] * (self._column - len(row))
        row[self._column : self._column + len(characters)] = [Cell(each, self._colour) for each in characters]
        self._column += len(characters)


def record() -> Iterator[list[Row]]:
    """The rows of a terminal in which COMMAND is executed, after each output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "xterm-256color"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", COMMAND], cwd=PROJECT, env=environment, stdin=inside, stdout=inside, stderr=inside
    )
    os.close(inside)
    screen = Screen()
    with open(terminal, "rb", buffering=0) as stream:
        for chunk in iter(lambda: _read(stream.fileno()), b""):
            screen.write(chunk.decode(errors="replace"))
            yield [list(row) for row in screen.rows]
    if process.wait():
        raise RuntimeError(f"{COMMAND} failed: {texts(screen.rows)}")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports the end of a terminal as an error
        return b""


def texts(rows: list[Row]) -> list[str]:
    """The text of each row."""
    return ["".join(cell.character for cell in row).rstrip() for row in rows]


def most_complete(frames: list[list[Row]]) -> list[Row]:
    """The frame with the live table that shows the most running tasks and, among these, the most lines of logs."""

    def completeness(rows: list[Row]) -> tuple[int, int]:
        lines = texts(rows)
        return sum(" Running " in line for line in lines), sum(" | " in line for line in lines)

    return max(frames, key=completeness)


def svg(rows: list[Row]) -> str:
    """A picture of these rows below the command."""
    prompt = [Cell("$", _PROMPT), Cell(" ", _TEXT), *(Cell(each, _TEXT) for each in COMMAND)]
    shown = [prompt, *(row for row in rows if row)]
    width = round(_COLUMNS * _CHARACTER_WIDTH + 2 * _MARGIN)
    height = _TITLE_BAR + len(shown) * _LINE_HEIGHT + _MARGIN
    buttons = "".join(
        f'<circle cx="{_MARGIN + 6 + 20 * number}" cy="{_TITLE_BAR // 2}" r="6" fill="{colour}"/>'
        for number, colour in enumerate(_BUTTONS)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="{_FONT_SIZE}">\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>\n{buttons}\n'
        + "\n".join(_line(number, row) for number, row in enumerate(shown))
        + "\n</svg>\n"
    )


def _line(number: int, row: Row) -> str:
    y = _TITLE_BAR + (number + 1) * _LINE_HEIGHT - 6
    text = "".join(cell.character for cell in row).rstrip()
    if set(text) == {"─"}:
        return f'<path d="M{_MARGIN} {y - 5}h{round(len(text) * _CHARACTER_WIDTH)}" stroke="{_DIM}"/>'
    spans = "".join(_span(*each) for each in _spans(row[: len(text)]))
    return f'<text y="{y}" xml:space="preserve">{spans}</text>'


def _spans(row: Row) -> Iterator[tuple[int, str, str]]:
    """Column, colour and text of each part of the row: words of one colour, without the gaps of the table."""
    column = 0
    for colour, cells in groupby(row, key=lambda cell: cell.colour):
        for part in re.split(r"( {2,})", "".join(cell.character for cell in cells)):
            if part.strip():
                yield column, colour, part
            column += len(part)


def _span(column: int, colour: str, text: str) -> str:
    x, width = _MARGIN + column * _CHARACTER_WIDTH, len(text) * _CHARACTER_WIDTH
    # With its length, text has the width of a terminal's in every font.
    return f'<tspan x="{x:.1f}" fill="{colour}" textLength="{width:.1f}">{escape(text)}</tspan>'


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg(most_complete(list(record()))))
