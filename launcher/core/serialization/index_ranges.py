"""Sets of task indexes in the notation ``0-3,7``."""

import re
from collections.abc import Iterable

#: The maximum number of tasks of a role. Larger indexes are rejected, which bounds the memory for a range.
INDEXES_END = 10_000

_PART = re.compile(r" *([0-9]{1,9})(?:-([0-9]{1,9}))? *")


def to_text(indexes: Iterable[int]) -> str:
    """The indexes, which must be ascending, as text."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def from_text(text: str) -> list[int]:
    """The indexes in *text*, in its order. Raises ValueError when it is invalid."""
    indexes: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is neither an index nor a range, such as 7 or 0-3")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last < INDEXES_END:
            raise ValueError(f"{part!r} is not a range of indexes from 0 to {INDEXES_END - 1}")
        indexes.extend(range(first, last + 1))
        if len(indexes) > INDEXES_END:
            raise ValueError(f"more than {INDEXES_END} indexes")
    return indexes
