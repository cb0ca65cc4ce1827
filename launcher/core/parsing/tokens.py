"""Tokens of JSON and YAML texts with their offsets, for line numbers and duplicate keys."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from launcher.core.parsing.field_path import Path


@dataclass(frozen=True, slots=True)
class ContainerStart:
    """The start of a list, or of an object when *keyed*."""

    at: int
    keyed: bool


@dataclass(frozen=True, slots=True)
class Scalar:
    """A key or a scalar value."""

    at: int
    text: str


#: None is the end of the innermost list or object. *at* is an offset in characters.
Token = ContainerStart | Scalar | None


def token_paths(steps: Iterable[Token]) -> Iterator[tuple[Path, int]]:
    """The path and offset of each value: of a field the offset of its key, of an item its start."""
    path: list[str | int] = []
    keyed: list[bool] = []
    key_at: int | None = None
    for step in steps:
        if step is None:
            keyed.pop()
            path.pop()
            continue
        if keyed and keyed[-1] and key_at is None and isinstance(step, Scalar):
            path[-1], key_at = step.text, step.at
            continue
        if keyed and not keyed[-1]:
            path[-1] = int(path[-1]) + 1
        yield tuple(path), step.at if key_at is None else key_at
        key_at = None
        if isinstance(step, ContainerStart):
            keyed.append(step.keyed)
            path.append(-1)
