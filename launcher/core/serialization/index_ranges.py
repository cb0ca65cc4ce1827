"""Sets of task indexes as people write them: ``0-3,7``."""

import re
from collections.abc import Iterable

#: No role has more tasks, so no index is as large; what claims otherwise is not worth the memory to read it.
INDEXES_END = 10_000

_PART = re.compile(r" *([0-9]{1,9})(?:-([0-9]{1,9}))? *")


def to_text(indexes: Iterable[int]) -> str:
    """The indexes, ascending, runs drawn together."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def from_text(text: str) -> list[int]:
    """The indexes that *text* names, in its order. Raises ValueError when it names none, or one that cannot be."""
    indexes: list[int] = []
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is no index and no range of them, such as 7 or 0-3")
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if not first <= last < INDEXES_END:
            raise ValueError(f"{part!r} is no range of indexes from 0 to {INDEXES_END - 1}")
        indexes.extend(range(first, last + 1))
        if len(indexes) > INDEXES_END:
            raise ValueError(f"{INDEXES_END} indexes at most can be named")
    return indexes
