"""
What is applied, merged with what is there.

Whoever applies says what the object is to hold. Maps are merged, task roles are merged by their name, any other list
takes the place of the one there, null deletes. That is all for most kinds: nobody owns their fields, so there are no
conflicts, and a field that is no longer applied stays as it is. Those of Frameworks have owners (``owning``).
"""

from typing import Any

from launcher.api.apply.field_sets import by_name
from launcher.core.errors import BadRequest, Conflict
from launcher.store.interface import Object, ResourceKind

#: Lists whose entries are one thing each, known by name.
_BY_NAME = ("spec", "taskRoles")


def check_applied(kind: ResourceKind, obj: Object, namespace: str, name: str) -> None:
    """Nothing, if this may be applied there. Raises BadRequest."""
    for field in ("apiVersion", "kind"):
        if not obj.get(field):
            raise BadRequest(f"{field} is missing: whoever applies a {kind.kind} has to say so")
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    if metadata.get("managedFields"):
        raise BadRequest("metadata.managedFields must be left out of what is applied")
    if metadata.get("name", name) != name:
        raise BadRequest(f"metadata.name is {metadata['name']!r}, and the address says {name!r}")
    if kind.namespaced and metadata.get("namespace", namespace) != namespace:
        raise BadRequest(
            f"metadata.namespace is {metadata['namespace']!r}, and the address says {namespace!r}"
        )


def applied(stored: Object, wish: Object) -> Object:
    """What the object is when it holds *wish*, too."""
    merged: Object = _merged(stored, wish, ())
    return merged


def anew(kind: ResourceKind, wish: Object, namespace: str, name: str) -> Object:
    """The object that *wish* is by itself. Raises Conflict when one that was there before is meant."""
    new: Object = _merged({}, wish, ())
    metadata = new.setdefault("metadata", {})
    if metadata.get("uid"):
        raise Conflict(
            f'Operation cannot be fulfilled on {kind.resource} "{name}": it has a uid, and no such object is there'
        )
    if metadata.get("resourceVersion"):
        raise Conflict(
            f'Operation cannot be fulfilled on {kind.resource} "{name}": it has a version, and no such object is there'
        )
    metadata["name"] = name
    if kind.namespaced:
        metadata["namespace"] = namespace
    return new


def without_nulls(wish: Object) -> Object:
    """*wish* without what it leaves open: null applies nothing."""
    found: Object = _given(wish, ())
    return found


def _given(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _given(inner, (*path, key)) for key, inner in value.items() if inner is not None}
    if path == _BY_NAME and isinstance(value, list):
        return [_given(entry, (*path, "")) for entry in value]
    return value


def _merged(old: Any, new: Any, path: tuple[str, ...]) -> Any:
    if isinstance(new, dict):
        result = dict(old) if isinstance(old, dict) else {}
        for key, value in new.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _merged(result.get(key), value, (*path, key))
        return result
    # Entries that cannot be told apart are left for the rules to refuse.
    if path == _BY_NAME and isinstance(old, list) and isinstance(new, list) and len(by_name(new)) == len(new):
        return _merged_by_name(old, new, path)
    return new


def _merged_by_name(old: list[Any], new: list[Any], path: tuple[str, ...]) -> list[Any]:
    """The old entries, each with what is new about it, then the new ones."""
    places = {entry.get("name"): index for index, entry in enumerate(old) if isinstance(entry, dict)}
    result = list(old)
    for entry in new:
        place = places.get(entry.get("name")) if isinstance(entry, dict) else None
        if place is None:
            result.append(_merged(None, entry, (*path, "")))
        else:
            result[place] = _merged(result[place], entry, (*path, ""))
    return result
