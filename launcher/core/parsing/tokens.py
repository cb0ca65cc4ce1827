"""A walk through text that knows where each value stands: for lines, columns and keys that stand twice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from launcher.core.parsing.field_path import Path


@dataclass(frozen=True, slots=True)
class Opened:
    """A list begins, or an object when *keyed*."""

    at: int
    keyed: bool


@dataclass(frozen=True, slots=True)
class Word:
    """A key or a plain value."""

    at: int
    text: str


#: None closes what was opened last. *at* counts characters from the start of the text.
Step = Opened | Word | None


def paths(steps: Iterable[Step]) -> Iterator[tuple[Path, int]]:
    """The path of each value, and where it is written: a field where its key is, an item where it begins."""
    path: list[str | int] = []
    keyed: list[bool] = []
    key_at: int | None = None
    for step in steps:
        if step is None:
            keyed.pop()
            path.pop()
            continue
        if keyed and keyed[-1] and key_at is None and isinstance(step, Word):
            path[-1], key_at = step.text, step.at
            continue
        if keyed and not keyed[-1]:
            path[-1] = int(path[-1]) + 1
        yield tuple(path), step.at if key_at is None else key_at
        key_at = None
        if isinstance(step, Opened):
            keyed.append(step.keyed)
            path.append(-1)
