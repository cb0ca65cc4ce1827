"""
Strategic merge patches, which kubectl and typed clients send for core kinds.

A merge patch that also merges some lists entry by entry, and in which a few keys are directives:
``$patch`` (delete, replace, merge), ``$retainKeys``, ``$setElementOrder/x`` and ``$deleteFromPrimitiveList/x``.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from launcher.api.apply.merge_keys import MergeKey, field_type, merge_key
from launcher.core.errors import BadRequest
from launcher.core.json_access import as_object
from launcher.store.interface import Object, ResourceKind

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(kind: ResourceKind, obj: Object, changes: Object) -> Object:
    """Returns the patched object; *obj* is not changed. Raises BadRequest."""
    return _object(kind.kind, obj, changes)


def _object(type_name: str, old: Any, changes: Mapping[str, Any]) -> Object:
    match changes.get(_PATCH, "merge"):
        case "replace":
            return {name: value for name, value in changes.items() if name != _PATCH and value is not None}
        case "delete":
            return {}
        case "merge":
            return _merged(type_name, as_object(old), changes)
        case other:
            raise BadRequest(f"$patch must be delete, merge or replace, not {other!r}")


def _merged(type_name: str, old: Object, changes: Mapping[str, Any]) -> Object:
    result = _retained(old, changes)
    for name in dict.fromkeys(_fields(changes)):
        value = changes.get(name)
        if name in changes and value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _object(field_type(type_name, name), result.get(name), value)
        elif (key := merge_key(type_name, name)) is not None:
            result[name] = _List(type_name, name, key).merged(result.get(name), changes)
        elif name in changes:
            result[name] = value
    return result


def _fields(changes: Mapping[str, Any]) -> Iterator[str]:
    """Yields the fields that the patch changes, including those that only a directive names."""
    for name in changes:
        if name.startswith((_ORDER, _DELETE)):
            yield name.partition("/")[2]
        elif name not in (_PATCH, _RETAIN):
            yield name


def _retained(old: Object, changes: Mapping[str, Any]) -> Object:
    """Returns the retained fields: of alternatives, such as volume types, only those that the patch names."""
    if _RETAIN not in changes:
        return dict(old)
    retained = changes[_RETAIN]
    if not isinstance(retained, list):
        raise BadRequest(f"{_RETAIN} must be a list of field names")
    named = {name for name in retained if isinstance(name, str)}
    return {name: value for name, value in old.items() if name in named}


class _List:
    """A merged list: field *name* of a type."""

    def __init__(self, type_name: str, name: str, key: MergeKey) -> None:
        self._name, self._key, self._type = name, key.key, field_type(type_name, name)

    def merged(self, old: Any, changes: Mapping[str, Any]) -> list[Any]:
        """Returns the old list with the changes, in the requested order."""
        before = old if isinstance(old, list) else []
        new = self._list(changes, self._name)
        deleted = {_identity(value) for value in self._list(changes, _DELETE + self._name)}
        if self._key is None:
            values = {_identity(value): value for value in (*before, *new)}
            entries = [value for identity, value in values.items() if identity not in deleted]
        else:
            entries = self._by_key(before, new, self._key)
        if _ORDER + self._name not in changes:
            return entries
        return self._ordered(entries, before, self._list(changes, _ORDER + self._name))

    def _list(self, changes: Mapping[str, Any], name: str) -> list[Any]:
        value = changes.get(name)
        if value is not None and not isinstance(value, list):
            raise BadRequest(f"{name} must be a list")
        return value or []

    def _by_key(self, old: Sequence[Any], new: Sequence[Any], key: str) -> list[Any]:
        if any(as_object(entry).get(_PATCH) == "replace" for entry in new):
            return [_object(self._type, {}, entry) for entry in new if _PATCH not in as_object(entry)]
        result: dict[int, Any] = dict(enumerate(old))
        indexes: dict[bytes, list[int]] = {}
        new_indexes = itertools.count(len(old))
        for index, entry in enumerate(old):
            indexes.setdefault(self._identity(entry), []).append(index)
        for entry in new:
            if not isinstance(entry, dict) or entry.get(key) is None:
                raise BadRequest(f"each entry of {self._name} must have its merge key {key}")
            identity = _identity(entry[key])
            if entry.get(_PATCH) == "delete":
                for index in indexes.pop(identity, ()):
                    del result[index]
                continue
            index = indexes.setdefault(identity, [next(new_indexes)])[0]
            result[index] = _object(self._type, result.get(index), entry)
        return list(result.values())

    def _ordered(self, entries: Sequence[Any], before: Sequence[Any], order: Sequence[Any]) -> list[Any]:
        """
        Returns the entries that *order* names in that order, and the others among them.

        The others stay behind all entries that they followed before.
        """
        positions = {self._identity(entry): index for index, entry in enumerate(order)}
        previous = {self._identity(entry): index for index, entry in enumerate(before)}
        named = [entry for entry in entries if self._identity(entry) in positions]
        named.sort(key=lambda entry: positions[self._identity(entry)])
        others = deque(entry for entry in entries if self._identity(entry) not in positions)
        result: list[Any] = []
        for entry in named:
            index = previous.get(self._identity(entry), len(before))
            while others and index > previous.get(self._identity(others[0]), -1):
                result.append(others.popleft())
            result.append(entry)
        return [*result, *others]

    def _identity(self, entry: Any) -> bytes:
        return _identity(entry if self._key is None else as_object(entry).get(self._key))


def _identity(value: Any) -> bytes:
    """Returns equal bytes for equal values of any type: a patch may contain anything."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
