"""What a terminal can do and what must not reach one: width, colours, and the control characters of strangers."""

import os
import re
import shutil
import unicodedata
from collections.abc import Iterable
from typing import TextIO

#: Colours that can be told apart on dark and on bright ground.
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
#: What may stay in a line: everything printable, and changes of colour.
_STRANGE = re.compile(
    r"\x1b\[[0-9;:]*m|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it as it comes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Whether colours are welcome there."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal; None where lines may be of any length."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def coloured(text: str, number: int) -> str:
    """The text in a colour of its own: that of *number*."""
    return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m"


def harmless(line: str) -> str:
    """
    The line as it may be written to a terminal: its colours stay, whatever else would move or change something goes.

    Of a line that was written over with carriage returns, as progress bars do, the last version is left.
    """
    last = next((part for part in reversed(line.split("\r")) if part), "")
    kept = _STRANGE.sub(
        lambda found: found[0] if found[0].startswith("\x1b[") and found[0][-1] == "m" else "", last
    )
    return kept + "\x1b[0m" if "\x1b[" in kept else kept


def cells(text: str) -> int:
    """How many columns the text takes; it has no control characters."""
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


def one_line(text: str) -> str:
    """The text without line ends and control characters, for a cell of a table."""
    return " ".join(harmless(line).replace("\t", " ").strip() for line in text.splitlines() if line.strip())


def longest(texts: Iterable[str]) -> int:
    """The columns of the widest text."""
    return max(map(cells, texts), default=0)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
