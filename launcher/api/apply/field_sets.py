"""
Sets of a Framework's fields, each identified by its path, for server-side apply.

The parts of a path are the keys of Kubernetes' ``fieldsV1``: ``f:spec``, ``f:taskRoles``, ``k:{"name":"worker"}``. Maps
are traversed, lists are atomic, and only task roles are identified by their name. Fields outside of the spec, the
labels and the annotations have no manager.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

Json = dict[str, Any]
Path = tuple[str, ...]
FieldSet = frozenset[Path]

NOTHING: FieldSet = frozenset()
_ROLES: Path = ("f:spec", "f:taskRoles")
_FIELD, _ROLE = "f:", "k:"
_ABSENT = object()


def fields_in(obj: Mapping[str, Any]) -> FieldSet:
    """Returns every field that *obj* sets and that can have a manager; null sets nothing."""
    return frozenset((*_metadata_fields(obj.get("metadata")), *_fields(obj.get("spec") or None, ("f:spec",))))


def _metadata_fields(metadata: Any) -> Iterator[Path]:
    if not isinstance(metadata, dict):
        return
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        for key, value in values.items() if isinstance(values, dict) else ():
            if value is not None:
                yield "f:metadata", _FIELD + field, _FIELD + key


def _fields(value: Any, path: Path) -> Iterator[Path]:
    if value is None:
        return
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _fields(inner, (*path, _FIELD + key))
    elif path == _ROLES and (roles := roles_by_key(value)):
        for key, role in roles.items():
            yield (*path, key)
            yield from _fields(role, (*path, key))
    else:
        yield path


def roles_by_key(value: Any) -> dict[str, Json]:
    """Returns task roles by their key in a path; empty if names are missing or not unique."""
    if not isinstance(value, list):
        return {}
    roles = {_role_key(role["name"]): role for role in value if _is_named(role)}
    return roles if len(roles) == len(value) else {}


def _is_named(role: Any) -> bool:
    return isinstance(role, dict) and isinstance(role.get("name"), str)


def _role_key(name: str) -> str:
    # Not by orjson: an applied configuration may contain text that is not valid Unicode.
    return _ROLE + json.dumps({"name": name}, ensure_ascii=False, separators=(",", ":"))


def to_fields_v1(fields: Iterable[Path]) -> Json:
    """Returns the set as ``fieldsV1``."""
    tree: Json = {}
    for path in sorted(fields):
        branch = tree
        # A prefix sorts before longer paths, so its branch exists already.
        for part in path[:-1]:
            branch = branch.setdefault(part, {})
        branch[path[-1]] = {}
    return _with_dots(tree, frozenset(fields), ())


def _with_dots(tree: Json, fields: FieldSet, path: Path) -> Json:
    """Returns the tree with a dot at each member of the set that contains other members."""
    inner = {part: _with_dots(branch, fields, (*path, part)) for part, branch in tree.items()}
    return {".": {}, **inner} if inner and path in fields else inner


def from_fields_v1(tree: Mapping[str, Any]) -> FieldSet:
    """Returns the set in ``fieldsV1``. Raises ValueError."""
    return frozenset(_members(tree, ()))


def _members(tree: Any, path: Path) -> Iterator[Path]:
    if not isinstance(tree, dict):
        raise ValueError(f"{'/'.join(path)} must be an object")
    if path and (not tree or "." in tree):
        yield path
    for part, branch in tree.items():
        if part == ".":
            continue
        if part[:2] not in ("f:", "k:", "v:", "i:"):
            raise ValueError(f"{part!r} must begin with f:, k:, v: or i:")
        yield from _members(branch, (*path, part))


def is_set(obj: Mapping[str, Any], path: Path) -> bool:
    """Whether *obj* sets that field."""
    return _value(obj, path) not in (_ABSENT, None)


def is_same(one: Mapping[str, Any], other: Mapping[str, Any], path: Path) -> bool:
    """Whether a field is equal in both. Maps are equal regardless of their fields, which are compared themselves."""
    values = _value(one, path), _value(other, path)
    if _ABSENT in values:
        return values[0] is values[1]
    if all(isinstance(value, dict) for value in values):
        return True
    # Compared as JSON, since 1 == True in Python.
    encoded = [orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in values]
    return encoded[0] == encoded[1]


def _value(value: Any, path: Path) -> Any:
    for part in path:
        inner = roles_by_key(value) if isinstance(value, list) else value
        key = part.removeprefix(_FIELD) if part.startswith(_FIELD) else part
        if not isinstance(inner, dict) or key not in inner:
            return _ABSENT
        value = inner[key]
    return value


def without(obj: Mapping[str, Any], fields: Iterable[Path]) -> Json:
    """Returns a copy of *obj* without these fields and their content; remaining roles keep their name."""
    remaining: Json = _pruned(dict(obj), to_fields_v1(fields))
    return remaining


def _pruned(value: Any, tree: Mapping[str, Any]) -> Any:
    if not tree:
        return value
    if isinstance(value, list):
        roles = {key: role for key, role in roles_by_key(value).items() if not _is_member(tree.get(key))}
        return [{**_pruned(role, tree.get(key, {})), "name": role["name"]} for key, role in roles.items()]
    if not isinstance(value, dict):
        return value
    kept = {key: inner for key, inner in value.items() if not _is_member(tree.get(_FIELD + key))}
    return {key: _pruned(inner, tree.get(_FIELD + key, {})) for key, inner in kept.items()}


def _is_member(branch: Mapping[str, Any] | None) -> bool:
    return branch is not None and (not branch or "." in branch)


def format_path(path: Path) -> str:
    """Returns the path as Kubernetes formats it: ``.spec.taskRoles[name="worker"].taskNumber``."""
    return "".join(map(_format_part, path))


def _format_part(part: str) -> str:
    if not part.startswith(_ROLE):
        return f".{part[2:]}"
    keys = [f"{key}={json.dumps(value)}" for key, value in json.loads(part.removeprefix(_ROLE)).items()]
    return f"[{','.join(keys)}]"
