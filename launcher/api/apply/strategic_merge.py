"""
Strategic merge patches: what kubectl and typed clients send for kinds that they know.

A merge patch in which some lists are merged as well, entry by entry, and in which a few keys are directives:
``$patch`` (delete, replace, merge), ``$retainKeys``, ``$setElementOrder/x`` and ``$deleteFromPrimitiveList/x``.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from launcher.api.apply.merge_keys import Merging, merging_of, type_in
from launcher.core.errors import BadRequest
from launcher.core.validation.pod_template import as_object
from launcher.store.interface import Object, ResourceKind

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategically_patched(kind: ResourceKind, obj: Object, changes: Object) -> Object:
    """What the patch makes of *obj*, which stays as it is. Raises BadRequest when it makes no sense."""
    return _object(kind.kind, obj, changes)


def _object(of: str, old: Any, changes: Mapping[str, Any]) -> Object:
    match changes.get(_PATCH, "merge"):
        case "replace":
            return {name: value for name, value in changes.items() if name != _PATCH and value is not None}
        case "delete":
            return {}
        case "merge":
            return _merged(of, as_object(old), changes)
        case other:
            raise BadRequest(f"$patch is one of delete, merge and replace, not {other!r}")


def _merged(of: str, old: Object, changes: Mapping[str, Any]) -> Object:
    result = _retained(old, changes)
    for name in dict.fromkeys(_fields(changes)):
        value = changes.get(name)
        if name in changes and value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _object(type_in(of, name), result.get(name), value)
        elif (merging := merging_of(of, name)) is not None:
            result[name] = _List(of, name, merging).merged(result.get(name), changes)
        elif name in changes:
            result[name] = value
    return result


def _fields(changes: Mapping[str, Any]) -> Iterator[str]:
    """The fields that the patch is about, also where a directive alone names one."""
    for name in changes:
        if name.startswith((_ORDER, _DELETE)):
            yield name.partition("/")[2]
        elif name not in (_PATCH, _RETAIN):
            yield name


def _retained(old: Object, changes: Mapping[str, Any]) -> Object:
    """The old fields that stay: of alternatives, such as the types of a volume, only those that the patch names."""
    if _RETAIN not in changes:
        return dict(old)
    retained = changes[_RETAIN]
    if not isinstance(retained, list):
        raise BadRequest(f"{_RETAIN} is a list of the fields that stay")
    named = {name for name in retained if isinstance(name, str)}
    return {name: value for name, value in old.items() if name in named}


class _List:
    """One list that is merged: field *name* of a type."""

    def __init__(self, of: str, name: str, merging: Merging) -> None:
        self._name, self._key, self._type = name, merging.key, type_in(of, name)

    def merged(self, old: Any, changes: Mapping[str, Any]) -> list[Any]:
        """The old list with the changes, in the order that they ask for."""
        before = old if isinstance(old, list) else []
        new = self._sent(changes, self._name)
        gone = {_mark(value) for value in self._sent(changes, _DELETE + self._name)}
        if self._key is None:
            kept = {_mark(value): value for value in (*before, *new)}
            entries = [value for mark, value in kept.items() if mark not in gone]
        else:
            entries = self._by_key(before, new, self._key)
        if _ORDER + self._name not in changes:
            return entries
        return self._ordered(entries, before, self._sent(changes, _ORDER + self._name))

    def _sent(self, changes: Mapping[str, Any], name: str) -> list[Any]:
        value = changes.get(name)
        if value is not None and not isinstance(value, list):
            raise BadRequest(f"{name} must be a list")
        return value or []

    def _by_key(self, old: Sequence[Any], new: Sequence[Any], key: str) -> list[Any]:
        if any(as_object(entry).get(_PATCH) == "replace" for entry in new):
            return [_object(self._type, {}, entry) for entry in new if _PATCH not in as_object(entry)]
        result: dict[int, Any] = dict(enumerate(old))
        places: dict[bytes, list[int]] = {}
        at_the_end = itertools.count(len(old))
        for place, entry in enumerate(old):
            places.setdefault(self._known_by(entry), []).append(place)
        for entry in new:
            if not isinstance(entry, dict) or entry.get(key) is None:
                raise BadRequest(f"each entry of {self._name} needs its {key}, by which it is known")
            mark = _mark(entry[key])
            if entry.get(_PATCH) == "delete":
                for place in places.pop(mark, ()):
                    del result[place]
                continue
            place = places.setdefault(mark, [next(at_the_end)])[0]
            result[place] = _object(self._type, result.get(place), entry)
        return list(result.values())

    def _ordered(self, entries: Sequence[Any], before: Sequence[Any], order: Sequence[Any]) -> list[Any]:
        """
        Those that the order names in that order, and the others among them.

        Another one keeps its place behind all of those that it stood behind before.
        """
        wanted = {self._known_by(entry): place for place, entry in enumerate(order)}
        stood = {self._known_by(entry): place for place, entry in enumerate(before)}
        named = [entry for entry in entries if self._known_by(entry) in wanted]
        named.sort(key=lambda entry: wanted[self._known_by(entry)])
        others = deque(entry for entry in entries if self._known_by(entry) not in wanted)
        result: list[Any] = []
        for entry in named:
            place = stood.get(self._known_by(entry), len(before))
            while others and place > stood.get(self._known_by(others[0]), -1):
                result.append(others.popleft())
            result.append(entry)
        return [*result, *others]

    def _known_by(self, entry: Any) -> bytes:
        return _mark(entry if self._key is None else as_object(entry).get(self._key))


def _mark(value: Any) -> bytes:
    """Equal for equal values, whatever they are: a patch may hold anything."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
