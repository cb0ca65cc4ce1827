"""
Sets of a Framework's fields, and what they mean on it: the fields that can be owned, each known by its path.

A path's parts are spelt as Kubernetes' ``fieldsV1`` spells its keys: ``f:spec``, ``f:taskRoles``,
``k:{"name":"worker"}``. Maps are gone into, lists are one value each, and only task roles are known by their name.
What is no part of the spec, a label or an annotation is owned by nobody.
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
    """Every field that *obj* sets and that can be owned; null sets nothing."""
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
    elif path == _ROLES and (roles := by_name(value)):
        for key, role in roles.items():
            yield (*path, key)
            yield from _fields(role, (*path, key))
    else:
        yield path


def by_name(value: Any) -> dict[str, Json]:
    """Task roles by the part of a path that names them; empty when some cannot be told apart."""
    if not isinstance(value, list):
        return {}
    roles = {_role_key(role["name"]): role for role in value if _is_named(role)}
    return roles if len(roles) == len(value) else {}


def _is_named(role: Any) -> bool:
    return isinstance(role, dict) and isinstance(role.get("name"), str)


def _role_key(name: str) -> str:
    # Not by orjson: what is applied may still hold text that nobody can write down.
    return _ROLE + json.dumps({"name": name}, ensure_ascii=False, separators=(",", ":"))


def to_wire(fields: Iterable[Path]) -> Json:
    """The set as ``fieldsV1``."""
    tree: Json = {}
    for path in sorted(fields):
        branch = tree
        # A prefix is sorted before what it begins: by now it is there, and bare.
        for part in path[:-1]:
            branch = branch.setdefault(part, {})
        branch[path[-1]] = {}
    return _marked(tree, frozenset(fields), ())


def _marked(tree: Json, fields: FieldSet, path: Path) -> Json:
    """The tree with a dot wherever something is in the set for itself and has other members inside."""
    inner = {part: _marked(branch, fields, (*path, part)) for part, branch in tree.items()}
    return {".": {}, **inner} if inner and path in fields else inner


def from_wire(tree: Mapping[str, Any]) -> FieldSet:
    """The set that ``fieldsV1`` spells. Raises ValueError when it spells none."""
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
    """Whether a field is the same in both. A map is the same map whatever it holds: that is told field by field."""
    values = _value(one, path), _value(other, path)
    if _ABSENT in values:
        return values[0] is values[1]
    if all(isinstance(value, dict) for value in values):
        return True
    # Spelt out, since Python takes 1 and true for equal.
    spelt = [orjson.dumps(value, option=orjson.OPT_SORT_KEYS) for value in values]
    return spelt[0] == spelt[1]


def _value(value: Any, path: Path) -> Any:
    for part in path:
        inner = by_name(value) if isinstance(value, list) else value
        key = part.removeprefix(_FIELD) if part.startswith(_FIELD) else part
        if not isinstance(inner, dict) or key not in inner:
            return _ABSENT
        value = inner[key]
    return value


def without(obj: Mapping[str, Any], fields: Iterable[Path]) -> Json:
    """A copy of *obj* in which these fields are gone, with all that is in them; a role that stays keeps its name."""
    left: Json = _pruned(dict(obj), to_wire(fields))
    return left


def _pruned(value: Any, tree: Mapping[str, Any]) -> Any:
    if not tree:
        return value
    if isinstance(value, list):
        roles = {key: role for key, role in by_name(value).items() if not _is_member(tree.get(key))}
        return [{**_pruned(role, tree.get(key, {})), "name": role["name"]} for key, role in roles.items()]
    if not isinstance(value, dict):
        return value
    kept = {key: inner for key, inner in value.items() if not _is_member(tree.get(_FIELD + key))}
    return {key: _pruned(inner, tree.get(_FIELD + key, {})) for key, inner in kept.items()}


def _is_member(branch: Mapping[str, Any] | None) -> bool:
    return branch is not None and (not branch or "." in branch)


def shown(path: Path) -> str:
    """The path as Kubernetes tells it to people: ``.spec.taskRoles[name="worker"].taskNumber``."""
    return "".join(map(_shown_part, path))


def _shown_part(part: str) -> str:
    if not part.startswith(_ROLE):
        return f".{part[2:]}"
    keys = [f"{key}={json.dumps(value)}" for key, value in json.loads(part.removeprefix(_ROLE)).items()]
    return f"[{','.join(keys)}]"
