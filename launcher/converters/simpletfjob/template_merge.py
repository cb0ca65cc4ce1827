"""Merges pods that differ only in their index into one pod template."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.names import PodIdentityKey
from launcher.core.parsing import field_path

Json = dict[str, Any]
Path = tuple[str | int, ...]

_PLACEHOLDER = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Difference:
    """The first field in which the pods differ in more than their index."""

    field: str


class _Differs(Exception):
    def __init__(self, path: Path) -> None:
        self.path = path


def merge_templates(pods: Sequence[Json]) -> Json | Difference:
    """The common template of *pods*, which are ordered by index, with a placeholder for the index."""
    if len(pods) == 1:
        return pods[0]
    try:
        return _object(pods, ())
    except _Differs as differs:
        return Difference(field_path.format_path(differs.path))


def _value(values: Sequence[Any], path: Path) -> Any:
    match values[0]:
        case dict() if _all_are(dict, values):
            return _object(values, path)
        case list() if _all_are(list, values) and len({len(value) for value in values}) == 1:
            columns = enumerate(zip(*values, strict=True))
            return [_value(column, (*path, index)) for index, column in columns]
        case str() if _all_are(str, values):
            return _text(values, path)
        case first if _all_are(type(first), values) and all(value == first for value in values):
            return first
        case _:
            raise _Differs(path)


def _object(values: Sequence[Json], path: Path) -> Json:
    for value in values:
        if different_keys := value.keys() ^ values[0].keys():
            raise _Differs((*path, min(different_keys)))
    return {key: _value([value[key] for value in values], (*path, key)) for key in values[0]}


def _text(values: Sequence[str], path: Path) -> str:
    """The common text, in which each number is equal in all pods, or is the index in all pods."""
    parts = [_NUMBERS.split(value) for value in values]
    if len({len(part) for part in parts}) != 1:
        raise _Differs(path)
    indexes = tuple(map(str, range(len(values))))
    return "".join(_part(column, indexes, path) for column in zip(*parts, strict=True))


def _part(column: tuple[str, ...], indexes: tuple[str, ...], path: Path) -> str:
    if len(set(column)) == 1:
        return column[0]
    if column != indexes:
        raise _Differs(path)
    return _PLACEHOLDER


def _all_are(kind: type, values: Iterable[Any]) -> bool:
    return all(type(value) is kind for value in values)
