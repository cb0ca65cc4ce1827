"""RFC 7396 merge patches and RFC 6902 JSON patches."""

import copy
import re
from collections.abc import Sequence
from typing import Any

import orjson

from launcher.core.errors import BadRequest, InvalidObject, TooLarge
from launcher.store.interface import MergePatch, Object, Patch

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024


def apply_patch(obj: Object, patch: Patch) -> Object:
    """Returns the patched object; *obj* is not changed. Raises InvalidObject if an operation fails."""
    try:
        result = (
            apply_merge_patch(obj, patch.changes)
            if isinstance(patch, MergePatch)
            else apply_json_patch(obj, patch.operations)
        )
    except RecursionError:
        raise BadRequest("the patch is nested too deeply") from None
    if not isinstance(result, dict):
        raise BadRequest("the patch result is not an object")
    return result


def apply_merge_patch(target: Any, changes: Any) -> Any:
    """RFC 7396: merges objects, null deletes, other values replace."""
    if not isinstance(changes, dict):
        return changes
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def apply_json_patch(document: Any, operations: Sequence[Any]) -> Any:
    """RFC 6902: applies the operations in order, all or none."""
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(f"a JSON patch may have {MAX_OPERATIONS} operations, this one has {len(operations)}")
    target = _Document(document)
    for index, operation in enumerate(operations):
        try:
            target.apply(operation)
        except _PatchError as failure:
            raise InvalidObject(f"operation {index} of the JSON patch: {failure}") from None
    return target.document


class _PatchError(Exception):
    """An operation that cannot be applied."""


class _Document:
    """A document to which operations are applied."""

    def __init__(self, document: Any) -> None:
        # The holder gives the whole document a parent.
        self._holder = {"": _deep_copy(document)}
        self._copied = 0

    @property
    def document(self) -> Any:
        return self._holder.get("")

    def apply(self, operation: Any) -> None:
        if not isinstance(operation, dict):
            raise _PatchError("must be an object")
        match operation.get("op"):
            case "add":
                self._put(_pointer(operation, "path"), _deep_copy(_value(operation)))
            case "remove":
                self._pop(_pointer(operation, "path"))
            case "replace":
                self._replace(_pointer(operation, "path"), _deep_copy(_value(operation)))
            case "move":
                self._move(_pointer(operation, "from"), _pointer(operation, "path"))
            case "copy":
                self._copy(_pointer(operation, "from"), _pointer(operation, "path"))
            case "test":
                if not _equal(self._find(_pointer(operation, "path")), _value(operation)):
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
        try:
            data = orjson.dumps(self._find(source))
        except orjson.JSONEncodeError as error:
            raise _PatchError(f"copy: {error}") from None
        # Copies of copies double with every operation: a short patch could use any amount of memory.
        self._copied += len(data)
        if self._copied > MAX_COPIED_BYTES:
            raise TooLarge(f"the copy operations of a JSON patch may copy {MAX_COPIED_BYTES} bytes in total")
        self._put(path, orjson.loads(data))

    def _find(self, path: list[str]) -> Any:
        value: Any = self._holder
        for part in path:
            value = _at(value, part)
        return value

    def _parent(self, path: list[str]) -> Any:
        parent = self._find(path[:-1])
        if not isinstance(parent, dict | list):
            raise _PatchError(f"{'/'.join(path)!r} has no parent object or list")
        return parent

    def _put(self, path: list[str], value: Any) -> None:
        parent, key = self._parent(path), path[-1]
        if isinstance(parent, list):
            parent.insert(len(parent) if key == "-" else _index(parent, key, beyond_end=1), value)
        else:
            parent[key] = value

    def _pop(self, path: list[str]) -> Any:
        parent, key = self._parent(path), path[-1]
        _at(parent, key)
        return parent.pop(int(key) if isinstance(parent, list) else key)


def _deep_copy(value: Any) -> Any:
    """Returns a deep copy: by orjson, which is several times faster, if *value* can be encoded."""
    try:
        return orjson.loads(orjson.dumps(value))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError):
        return copy.deepcopy(value)


_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


def _pointer(operation: Object, name: str) -> list[str]:
    """Returns the parts of the pointer; the first one is the whole document."""
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
    raise _PatchError(f"{part!r} does not exist")


def _index(values: list[Any], part: str, beyond_end: int = 0) -> int:
    """Returns the list index. *beyond_end* is how far it may be beyond the last element."""
    if not _ARRAY_INDEX.fullmatch(part) or int(part) >= len(values) + beyond_end:
        raise _PatchError(f"{part!r} is not an index of a list of {len(values)}")
    return int(part)


def _equal(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal. Unlike in Python, true does not equal 1."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_equal, first, second))
    return bool(first == second)
