"""What a patch makes of a value: RFC 7396 merge patches and RFC 6902 JSON patches."""

import copy
import re
from collections.abc import Sequence
from typing import Any

import orjson

from launcher.core.errors import BadRequest, InvalidObject, TooLarge
from launcher.store.interface import MergePatch, Object, Patch

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024


def patched(obj: Object, patch: Patch) -> Object:
    """The patched object; *obj* stays as it is. Raises InvalidObject when an operation fails."""
    try:
        result = (
            merged(obj, patch.changes) if isinstance(patch, MergePatch) else operated(obj, patch.operations)
        )
    except RecursionError:
        raise BadRequest("the patch is nested too deeply") from None
    if not isinstance(result, dict):
        raise BadRequest("the patch leaves no object behind")
    return result


def merged(target: Any, changes: Any) -> Any:
    """RFC 7396: objects are merged, null deletes, anything else replaces."""
    if not isinstance(changes, dict):
        return changes
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def operated(document: Any, operations: Sequence[Any]) -> Any:
    """RFC 6902: the operations one after another, all or none."""
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(f"a JSON patch may hold {MAX_OPERATIONS} operations, this one holds {len(operations)}")
    work = _Document(document)
    for index, operation in enumerate(operations):
        try:
            work.operate(operation)
        except _PatchError as failure:
            raise InvalidObject(f"operation {index} of the JSON patch: {failure}") from None
    return work.document


class _PatchError(Exception):
    """An operation that cannot be carried out, in words."""


class _Document:
    """A document under operations."""

    def __init__(self, document: Any) -> None:
        # Inside a box, so that the whole document has a parent too.
        self._box = {"": copy.deepcopy(document)}
        self._copied = 0

    @property
    def document(self) -> Any:
        return self._box.get("")

    def operate(self, operation: Any) -> None:
        if not isinstance(operation, dict):
            raise _PatchError("must be an object")
        match operation.get("op"):
            case "add":
                self._put(_pointer(operation, "path"), copy.deepcopy(_value(operation)))
            case "remove":
                self._pop(_pointer(operation, "path"))
            case "replace":
                self._replace(_pointer(operation, "path"), copy.deepcopy(_value(operation)))
            case "move":
                self._move(_pointer(operation, "from"), _pointer(operation, "path"))
            case "copy":
                self._copy(_pointer(operation, "from"), _pointer(operation, "path"))
            case "test":
                if not _same(self._find(_pointer(operation, "path")), _value(operation)):
                    raise _PatchError(f"test: {operation['path']!r} has another value")
            case other:
                raise _PatchError(f"op must be add, remove, replace, move, copy or test, not {other!r}")

    def _replace(self, path: list[str], value: Any) -> None:
        parent, key = self._parent(path), path[-1]
        _at(parent, key)
        parent[int(key) if isinstance(parent, list) else key] = value

    def _move(self, source: list[str], path: list[str]) -> None:
        if len(source) < len(path) and path[: len(source)] == source:
            raise _PatchError("a value cannot be moved into itself")
        self._put(path, self._pop(source))

    def _copy(self, source: list[str], path: list[str]) -> None:
        value = copy.deepcopy(self._find(source))
        # Copies of copies double with every operation: a short patch could ask for any amount of memory.
        self._copied += len(orjson.dumps(value))
        if self._copied > MAX_COPIED:
            raise TooLarge(f"the copies of a JSON patch may hold {MAX_COPIED} bytes altogether")
        self._put(path, value)

    def _find(self, path: list[str]) -> Any:
        value: Any = self._box
        for part in path:
            value = _at(value, part)
        return value

    def _parent(self, path: list[str]) -> Any:
        parent = self._find(path[:-1])
        if not isinstance(parent, dict | list):
            raise _PatchError(f"there is nothing to hold {'/'.join(path)!r}")
        return parent

    def _put(self, path: list[str], value: Any) -> None:
        parent, key = self._parent(path), path[-1]
        if isinstance(parent, list):
            parent.insert(len(parent) if key == "-" else _index(parent, key, room=1), value)
        else:
            parent[key] = value

    def _pop(self, path: list[str]) -> Any:
        parent, key = self._parent(path), path[-1]
        _at(parent, key)
        return parent.pop(int(key) if isinstance(parent, list) else key)


_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


def _pointer(operation: Object, name: str) -> list[str]:
    """The pointer's parts, beginning with the one that stands for the whole document."""
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")) or re.search(r"~(?![01])", text):
        raise _PatchError(f"{name} must be a JSON pointer such as '/metadata/labels/a', not {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _value(operation: Object) -> Any:
    if "value" not in operation:
        raise _PatchError("value is missing")
    return operation["value"]


def _at(value: Any, part: str) -> Any:
    if isinstance(value, list):
        return value[_index(value, part)]
    if isinstance(value, dict) and part in value:
        return value[part]
    raise _PatchError(f"there is no {part!r}")


def _index(values: list[Any], part: str, room: int = 0) -> int:
    """The place in the list; *room* is how far behind its end it may lie."""
    if not _ARRAY_INDEX.fullmatch(part) or int(part) >= len(values) + room:
        raise _PatchError(f"{part!r} is no place in a list of {len(values)}")
    return int(part)


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; unlike Python, JSON does not take true for 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
