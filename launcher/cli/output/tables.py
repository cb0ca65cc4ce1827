"""Plain tables: columns as wide as their widest cell; cells are cut in the middle where a terminal is narrower."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from launcher.cli.output.terminal import cells, cut, cut_middle, widest_cells

_GAP = 3
#: The indentation of a reason below its row.
INDENT_COLUMNS = 4
_INDENT = " " * INDENT_COLUMNS
#: No column is cut to less.
_MIN_COLUMNS = 8


def table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> Iterator[str]:
    """The lines of the table, none wider than *width*; None is unlimited."""
    lines = [header, *rows]
    widths = [widest_cells(column) for column in zip(*lines, strict=True)]
    if width is not None:
        widths = _reduced(widths, width - _GAP * (len(header) - 1))
    for line in lines:
        parts = [_padded(text, columns) for text, columns in zip(line, widths, strict=True)]
        yield cut((" " * _GAP).join(parts).rstrip(), width or 10**9)


def table_with_reasons(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[str]:
    """The same, but the last column is never cut: where it does not fit, it is printed below its row."""
    lines = list(table(header, rows, None))
    if width is None or widest_cells(lines) <= width:
        yield from lines
        return
    first, *others = table(header[:-1], [row[:-1] for row in rows], width)
    yield first
    for line, row in zip(others, rows, strict=True):
        yield line
        yield from wrap(row[-1], max(width, _MIN_COLUMNS), initial_indent=_INDENT, subsequent_indent=_INDENT)


def _padded(text: str, columns: int) -> str:
    fitted = cut_middle(text, columns)
    return fitted + " " * (columns - cells(fitted))


def _reduced(widths: list[int], total: int) -> list[int]:
    """The widths, the widest reduced until their sum is *total*."""
    reduced = list(widths)
    while sum(reduced) > total and max(reduced) > _MIN_COLUMNS:
        widest = max(range(len(reduced)), key=reduced.__getitem__)
        reduced[widest] -= 1
    return reduced
