"""
Field managers of a Framework: ``metadata.managedFields`` of server-side apply.

There are no managers before the first apply. From then on a field is managed by the clients that applied it, or by the
last one that changed it otherwise, and an apply changes a field of another manager only with ``force``.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from launcher.api.apply.field_sets import (
    NOTHING,
    FieldSet,
    Json,
    Path,
    fields_in,
    format_path,
    from_fields_v1,
    is_same,
    is_set,
    to_fields_v1,
)
from launcher.core.errors import BadRequest, LauncherError
from launcher.core.manifest import validate_framework
from launcher.core.names import API_VERSION

#: The manager of fields that were set before the first apply.
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"
#: The annotation of client-side apply.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LAST_APPLIED_PATH: Path = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
#: A dropped path has at least so many parts: metadata and spec are never removed.
_MIN_DROPPED_PARTS = 2


class ManagerOperation(StrEnum):
    """How a manager came to own fields; managedFields has one entry for each."""

    APPLY = "Apply"
    UPDATE = "Update"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """A manager and its fields; *time* is that of the last change of the set."""

    manager: str
    operation: ManagerOperation
    fields: FieldSet
    time: str = ""
    api_version: str = API_VERSION
    subresource: str = ""

    def is_same(self, other: "FieldManager") -> bool:
        return self.identity == other.identity

    @property
    def identity(self) -> tuple[str, ManagerOperation, str]:
        return self.manager, self.operation, self.subresource

    def __str__(self) -> str:
        """Returns the name in a conflict, in kube-apiserver's format."""
        if self.operation is ManagerOperation.APPLY:
            return f'"{self.manager}"'
        return f'"{self.manager}" using {self.api_version}' + (f" at {self.time}" if self.time else "")


FieldManagers = tuple[FieldManager, ...]


@dataclass(frozen=True, slots=True)
class ManagerConflict:
    """A field that an apply would change, and its other manager."""

    manager: FieldManager
    field: str


def managers_from_json(entries: Any) -> FieldManagers:
    """Returns the managers in ``managedFields``. Raises BadRequest."""
    if not isinstance(entries, list):
        raise BadRequest("metadata.managedFields must be a list")
    managers = tuple(
        _manager_from_json(entry, f"metadata.managedFields[{index}]") for index, entry in enumerate(entries)
    )
    if len({manager.identity for manager in managers}) < len(managers):
        raise BadRequest("metadata.managedFields must have one entry per manager and operation")
    return managers


def _manager_from_json(entry: Any, path: str) -> FieldManager:
    if not isinstance(entry, dict):
        raise BadRequest(f"{path} must be an object")
    texts = {name: entry.get(name) or "" for name in _TEXTS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise BadRequest(f"{path}.{name} must be a string")
    if texts["operation"] not in set(ManagerOperation):
        raise BadRequest(f"{path}.operation must be Apply or Update")
    if (entry.get("fieldsType") or "FieldsV1") != "FieldsV1":
        raise BadRequest(f"{path}.fieldsType must be FieldsV1")
    try:
        fields = from_fields_v1(entry.get("fieldsV1") or {})
    except ValueError as error:
        raise BadRequest(f"{path}.fieldsV1: {error}") from None
    return FieldManager(
        texts["manager"],
        ManagerOperation(texts["operation"]),
        fields,
        texts["time"],
        texts["apiVersion"] or API_VERSION,
        texts["subresource"],
    )


_TEXTS = ("manager", "operation", "time", "apiVersion", "subresource")


def managers_to_json(managers: Iterable[FieldManager]) -> list[Json]:
    """Returns ``managedFields``, with an entry for each manager that has fields."""
    return [_entry(manager) for manager in managers if manager.fields]


def _entry(manager: FieldManager) -> Json:
    entry = {
        "manager": manager.manager,
        "operation": manager.operation.value,
        "apiVersion": manager.api_version,
        "time": manager.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(manager.fields),
        "subresource": manager.subresource,
    }
    return {name: value for name, value in entry.items() if value}


@dataclass(frozen=True, slots=True)
class LastApplied:
    """Fields that still have the value of the last client-side apply: *applied* by the user, or *defaulted*."""

    applied: FieldSet = NOTHING
    defaulted: FieldSet = NOTHING


def last_applied(live: Json) -> LastApplied:
    """Returns the fields of kubectl's annotation, if the object has one."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        config = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return LastApplied()
    if not isinstance(config, dict):
        return LastApplied()
    applied = fields_in(config)
    # Some values are stored in another format than they were sent in.
    with suppress(LauncherError):
        config = validate_framework(config).object
    unchanged = frozenset(path for path in fields_in(config) if is_same(live, config, path))
    return LastApplied(applied & unchanged, unchanged - applied)


def initial_managers(live: Json, manager: str, now: str) -> FieldManagers:
    """
    Returns the managers of an object before its first server-side apply.

    Fields of kubectl's client-side apply become kubectl's. The annotation itself gets no manager: with one, kubectl
    would migrate all fields of that manager.
    """
    annotation = last_applied(live) if manager == KUBECTL else LastApplied()
    kubectl = FieldManager(KUBECTL, ManagerOperation.APPLY, annotation.applied, now)
    others = fields_in(live) - annotation.applied - annotation.defaulted - {LAST_APPLIED_PATH}
    before = FieldManager(BEFORE_FIRST_APPLY, ManagerOperation.UPDATE, others, now)
    return tuple(each for each in (kubectl, before) if each.fields)


def dropped_fields(managers: FieldManagers, applied: FieldSet, manager: str) -> FieldSet:
    """
    Returns the fields to remove when *manager* applies *applied*: those that only it applied before.

    A map or role is removed whole, with its defaults, if no manager has a field in it.
    """
    applier = FieldManager(manager, ManagerOperation.APPLY, applied)
    kept = applied.union(*(each.fields for each in managers if not each.is_same(applier)))
    needed = {path[:length] for path in kept for length in range(1, len(path) + 1)}
    own = NOTHING.union(*(each.fields for each in managers if each.is_same(applier)))
    dropped = set()
    for path in own - needed:
        size = next(size for size in range(_MIN_DROPPED_PARTS, len(path) + 1) if path[:size] not in needed)
        dropped.add(path[:size])
    return frozenset(dropped)


def manager_conflicts(
    live: Json, new: Json, managers: FieldManagers, applied: FieldSet, manager: str
) -> Sequence[ManagerConflict]:
    """Returns the fields of other managers that *manager* would change by applying *applied*."""
    applier = FieldManager(manager, ManagerOperation.APPLY, applied)
    others = [each for each in managers if not each.is_same(applier)]
    changed = _changed(live, new, applied)
    if others and changed and manager == KUBECTL:
        # A user who moves from client-side to server-side apply keeps the fields of the same file.
        changed -= last_applied(live).applied
    return [
        ManagerConflict(each, format_path(path)) for each in others for path in sorted(each.fields & changed)
    ]


def managers_after_apply(
    live: Json, new: Json, managers: FieldManagers, applied: FieldSet, manager: str, now: str
) -> FieldManagers:
    """Returns the managers after an apply: changed fields belong to *manager* alone, others are shared."""
    own = frozenset(path for path in applied if is_set(new, path))
    applier = FieldManager(manager, ManagerOperation.APPLY, own, now)
    return _with(_without(managers, applier, _changed(live, new, own), new), applier)


def managers_after_update(
    old: Json, new: Json, managers: FieldManagers, manager: str, now: str
) -> FieldManagers:
    """Returns the managers after another change of *old* into *new*: changed fields belong to *manager*."""
    changed = _changed(old, new, fields_in(new))
    updater = FieldManager(manager, ManagerOperation.UPDATE, changed, now)
    before = NOTHING.union(*(each.fields for each in managers if each.is_same(updater)))
    own = frozenset(path for path in before | changed if is_set(new, path))
    return _with(_without(managers, updater, changed, new), replace(updater, fields=own))


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], fields: FieldSet) -> FieldSet:
    return frozenset(path for path in fields if is_set(new, path) and not is_same(old, new, path))


def _without(managers: FieldManagers, writer: FieldManager, taken: FieldSet, new: Json) -> FieldManagers:
    """Returns the managers; those other than *writer* without *taken* and without fields that *new* does not set."""
    return tuple(
        each if each.is_same(writer) else _with_set_fields(each, each.fields - taken, new)
        for each in managers
    )


def _with_set_fields(manager: FieldManager, fields: FieldSet, new: Json) -> FieldManager:
    return replace(manager, fields=frozenset(path for path in fields if is_set(new, path)))


def _with(managers: FieldManagers, writer: FieldManager) -> FieldManagers:
    """Returns the managers with *writer*; its time changes only if its fields do."""
    if not any(each.is_same(writer) for each in managers):
        return (*managers, writer)
    return tuple(
        each if not each.is_same(writer) or each.fields == writer.fields else writer for each in managers
    )
