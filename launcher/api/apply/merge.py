"""
Merge of an applied configuration with a stored object.

Maps are merged, task roles are merged by their name, any other list is replaced, null deletes. Fields of most kinds
have no managers: there are no conflicts, and a field that is no longer applied is kept. Frameworks have field managers
(``managed_fields``).
"""

from typing import Any

from launcher.api.apply.field_sets import roles_by_key
from launcher.core.errors import BadRequest, Conflict
from launcher.store.interface import Object, ResourceKind

#: The list whose entries are merged by name.
_TASK_ROLES = ("spec", "taskRoles")


def check_applied(kind: ResourceKind, obj: Object, namespace: str, name: str) -> None:
    """Raises BadRequest if *obj* is not an applied configuration of that object."""
    for field in ("apiVersion", "kind"):
        if not obj.get(field):
            raise BadRequest(f"{field}: Required value: must be set in an apply patch")
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    if metadata.get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil in an apply patch")
    if metadata.get("name", name) != name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if kind.namespaced and metadata.get("namespace", namespace) != namespace:
        raise BadRequest(
            f"the namespace of the object ({metadata['namespace']}) does not match the namespace on the URL "
            f"({namespace})"
        )


def merge_applied(stored: Object, applied: Object) -> Object:
    """Returns the stored object with the *applied* configuration."""
    merged: Object = _merged(stored, applied, ())
    return merged


def new_applied(kind: ResourceKind, applied: Object, namespace: str, name: str) -> Object:
    """Returns the object that an apply creates. Raises Conflict if it names a uid or a resourceVersion."""
    new: Object = _merged({}, applied, ())
    metadata = new.setdefault("metadata", {})
    for field in ("uid", "resourceVersion"):
        if metadata.get(field):
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource} "{name}": {field} mismatch: the object does not '
                "exist"
            )
    metadata["name"] = name
    if kind.namespaced:
        metadata["namespace"] = namespace
    return new


def without_nulls(applied: Object) -> Object:
    """Returns *applied* without null fields, which apply nothing."""
    result: Object = _without_nulls(applied, ())
    return result


def _without_nulls(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner, (*path, key)) for key, inner in value.items() if inner is not None}
    if path == _TASK_ROLES and isinstance(value, list):
        return [_without_nulls(entry, (*path, "")) for entry in value]
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
    # Roles without unique names are replaced; validation rejects them.
    is_roles = path == _TASK_ROLES and isinstance(old, list) and isinstance(new, list)
    if is_roles and len(roles_by_key(new)) == len(new):
        return _merged_by_name(old, new, path)
    return new


def _merged_by_name(old: list[Any], new: list[Any], path: tuple[str, ...]) -> list[Any]:
    """Returns the old entries, merged, followed by the new ones."""
    indexes = {entry.get("name"): index for index, entry in enumerate(old) if isinstance(entry, dict)}
    result = list(old)
    for entry in new:
        index = indexes.get(entry.get("name")) if isinstance(entry, dict) else None
        if index is None:
            result.append(_merged(None, entry, (*path, "")))
        else:
            result[index] = _merged(result[index], entry, (*path, ""))
    return result
