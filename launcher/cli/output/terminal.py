"""Text for terminals: width, colours, and the removal of control characters."""

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TextIO

#: Colours that are readable on dark and on light backgrounds.
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_CONTROL = re.compile(
    r"\x1b\[[0-9;:]*m|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)
_SOFT_HYPHEN = "\u00ad"
_MIN_WRAP_COLUMNS = 40


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Whether colours may be written to the stream."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def terminal_size() -> os.terminal_size:
    """Columns and lines of stdout's terminal; ``COLUMNS`` and ``LINES`` override them."""
    columns, lines = _environment_number("COLUMNS"), _environment_number("LINES")
    if columns and lines:
        return os.terminal_size((columns, lines))
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((80, 24))
    return os.terminal_size((columns or size.columns or 80, lines or size.lines or 24))


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal; None where lines may have any length."""
    return terminal_size().columns if stream.isatty() else None


def coloured(text: str, number: int) -> str:
    """The text in the colour of *number*."""
    return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m"


def sanitize(line: str) -> str:
    """
    The line without control characters, but with its colours.

    Of a line that was overwritten with carriage returns, as progress bars do, the last version is left.
    """
    last = next((part for part in reversed(line.split("\r")) if part), "")
    kept = _CONTROL.sub(
        lambda found: found[0] if found[0].startswith("\x1b[") and found[0][-1] == "m" else "", last
    )
    return kept + "\x1b[0m" if "\x1b[" in kept else kept


def cells(text: str) -> int:
    """The number of columns that the text takes; it has no control characters."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def cut(text: str, columns: int) -> str:
    """The text, or as much of it as fits, with … at its end."""
    if cells(text) <= columns:
        return text
    kept, taken = [], 1
    for character in text:
        taken += _cells_of(character)
        if taken > columns:
            break
        kept.append(character)
    return "".join(kept) + "…" if columns > 0 else ""


def cut_middle(text: str, columns: int) -> str:
    """The text, or its start and end as far as they fit, with … between: names often differ at the end only."""
    if cells(text) <= columns:
        return text
    return cut(text, columns - columns // 2) + _end_of(text, columns // 2)


def _end_of(text: str, columns: int) -> str:
    """As much of the end of the text as fits."""
    start, taken = len(text), 0
    while start and (taken := taken + _cells_of(text[start - 1])) <= columns:
        start -= 1
    return text[start:]


def one_line(text: str) -> str:
    """The text without line ends and control characters, for a cell of a table."""
    return " ".join(sanitize(line).replace("\t", " ").strip() for line in text.splitlines() if line.strip())


def wrapped(text: str, indent: str, hanging_indent: str | None = None) -> Iterator[str]:
    """The text in lines of the terminal's width; *hanging_indent* is that of the lines after the first."""
    width, later = width_of(sys.stdout), indent if hanging_indent is None else hanging_indent
    if not text:
        return
    if width is None:
        yield indent + text
    else:
        yield from wrap(text, max(width, _MIN_WRAP_COLUMNS), initial_indent=indent, subsequent_indent=later)


def widest_cells(texts: Iterable[str]) -> int:
    """The columns of the widest text."""
    return max(map(cells, texts), default=0)


def _cells_of(character: str) -> int:
    category = unicodedata.category(character)
    if category in ("Mn", "Me") or (category == "Cf" and character != _SOFT_HYPHEN):
        return 0  # combining and zero-width characters
    if "\u1160" <= character <= "\u11ff":
        return 0  # vowels and final consonants of Hangul, drawn into the syllable before them
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _environment_number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else 0
