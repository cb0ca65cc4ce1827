"""Tables of text: columns as wide as they have to be, and cut where a terminal is narrower."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from launcher.cli.output.terminal import cells, cut, longest

_BETWEEN = 3
_BELOW = " " * 4
#: No column is cut to less.
_NARROWEST = 8


def table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> Iterator[str]:
    """The lines of the table, none wider than *width*; None is as wide as it takes."""
    lines = [header, *rows]
    widths = [longest(column) for column in zip(*lines, strict=True)]
    if width is not None:
        widths = _fitting(widths, width - _BETWEEN * (len(header) - 1))
    for line in lines:
        parts = [_padded(text, columns) for text, columns in zip(line, widths, strict=True)]
        yield cut((" " * _BETWEEN).join(parts).rstrip(), width or 10**9)


def table_with_reasons(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[str]:
    """The same, but nothing of the last column is cut: where it does not fit, it stands below its row."""
    lines = list(table(header, rows, None))
    if width is None or longest(lines) <= width:
        yield from lines
        return
    above, *others = table(header[:-1], [row[:-1] for row in rows], width)
    yield above
    for line, row in zip(others, rows, strict=True):
        yield line
        yield from wrap(row[-1], max(width, _NARROWEST), initial_indent=_BELOW, subsequent_indent=_BELOW)


def _padded(text: str, columns: int) -> str:
    fitted = cut(text, columns)
    return fitted + " " * (columns - cells(fitted))


def _fitting(widths: list[int], room: int) -> list[int]:
    """The widths, the widest made narrower until all fit into *room*."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > _NARROWEST:
        widest = max(range(len(fitted)), key=fitted.__getitem__)
        fitted[widest] -= 1
    return fitted
