"""Tables as Arena prints them: columns two spaces apart."""

from collections.abc import Iterable, Iterator, Sequence


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
