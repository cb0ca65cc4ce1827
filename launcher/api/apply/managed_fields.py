"""
Who owns which fields of a Framework: ``metadata.managedFields``, as server-side apply keeps them.

Nobody owns anything before the first apply. From then on a field belongs to whoever applied it or was the last to
change it otherwise, and an apply may change another's field only when it says so.
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
    from_wire,
    is_same,
    is_set,
    shown,
    to_wire,
)
from launcher.core.errors import BadRequest, LauncherError
from launcher.core.manifest import validate_framework
from launcher.core.names import API_VERSION

#: Who owns what was there when somebody first applied.
BEFORE = "before-first-apply"
KUBECTL = "kubectl"
#: What a client that applies by itself has applied last, as it notes it on the object.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NOTE: Path = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
#: The least that goes when a field does: never the whole of the metadata or of the spec.
_SHORTEST = 2


class ManagerOperation(StrEnum):
    """How somebody came to own fields; the two are kept apart even of one manager."""

    APPLY = "Apply"
    UPDATE = "Update"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """A manager, and the fields that it owns since *time*."""

    manager: str
    operation: ManagerOperation
    fields: FieldSet
    time: str = ""
    api_version: str = API_VERSION
    subresource: str = ""

    def is_one_with(self, other: "FieldManager") -> bool:
        return self.identity == other.identity

    @property
    def identity(self) -> tuple[str, ManagerOperation, str]:
        return self.manager, self.operation, self.subresource

    def __str__(self) -> str:
        """As Kubernetes tells it to who is in conflict with it."""
        if self.operation is ManagerOperation.APPLY:
            return f'"{self.manager}"'
        return f'"{self.manager}" using {self.api_version}' + (f" at {self.time}" if self.time else "")


Owners = tuple[FieldManager, ...]


@dataclass(frozen=True, slots=True)
class ManagerConflict:
    """A field that somebody would change, and another owns."""

    owner: FieldManager
    field: str


def read_owners(entries: Any) -> Owners:
    """The owners that ``managedFields`` tells of. Raises BadRequest."""
    if not isinstance(entries, list):
        raise BadRequest("metadata.managedFields must be a list")
    owners = tuple(_read(entry, f"metadata.managedFields[{index}]") for index, entry in enumerate(entries))
    if len({owner.identity for owner in owners}) < len(owners):
        raise BadRequest("metadata.managedFields must name each manager once for each operation")
    return owners


def _read(entry: Any, where: str) -> FieldManager:
    if not isinstance(entry, dict):
        raise BadRequest(f"{where} must be an object")
    texts = {name: entry.get(name) or "" for name in _TEXTS}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise BadRequest(f"{where}.{name} must be a string")
    if texts["operation"] not in set(ManagerOperation):
        raise BadRequest(f"{where}.operation must be Apply or Update")
    if (entry.get("fieldsType") or "FieldsV1") != "FieldsV1":
        raise BadRequest(f"{where}.fieldsType must be FieldsV1")
    try:
        fields = from_wire(entry.get("fieldsV1") or {})
    except ValueError as error:
        raise BadRequest(f"{where}.fieldsV1: {error}") from None
    return FieldManager(
        texts["manager"],
        ManagerOperation(texts["operation"]),
        fields,
        texts["time"],
        texts["apiVersion"] or API_VERSION,
        texts["subresource"],
    )


_TEXTS = ("manager", "operation", "time", "apiVersion", "subresource")


def owners_to_wire(owners: Iterable[FieldManager]) -> list[Json]:
    """``managedFields``: an entry for each who owns anything."""
    return [_entry(owner) for owner in owners if owner.fields]


def _entry(owner: FieldManager) -> Json:
    entry = {
        "manager": owner.manager,
        "operation": owner.operation.value,
        "apiVersion": owner.api_version,
        "time": owner.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_wire(owner.fields),
        "subresource": owner.subresource,
    }
    return {name: value for name, value in entry.items() if value}


@dataclass(frozen=True, slots=True)
class Note:
    """What stands on an object as kubectl last applied it by itself: as it was *given*, or *filled* in for it."""

    given: FieldSet = NOTHING
    filled: FieldSet = NOTHING


def note_on(live: Json) -> Note:
    """The note that kubectl has left, if it has."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        config = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return Note()
    if not isinstance(config, dict):
        return Note()
    given = fields_in(config)
    # Some values are stored in another spelling than they were sent in.
    with suppress(LauncherError):
        config = validate_framework(config).object
    standing = frozenset(path for path in fields_in(config) if is_same(live, config, path))
    return Note(given & standing, standing - given)


def first_owners(live: Json, manager: str, now: str) -> Owners:
    """
    The owners of an object that nobody has applied yet, as its first applier finds them.

    What kubectl has applied by itself, it may go on applying. Its note about that is nobody's: were it owned, kubectl
    would take over all that its owner has.
    """
    note = note_on(live) if manager == KUBECTL else Note()
    kubectl = FieldManager(KUBECTL, ManagerOperation.APPLY, note.given, now)
    before = FieldManager(
        BEFORE, ManagerOperation.UPDATE, fields_in(live) - note.given - note.filled - {NOTE}, now
    )
    return tuple(owner for owner in (kubectl, before) if owner.fields)


def dropped(owners: Owners, wanted: FieldSet, manager: str) -> FieldSet:
    """
    What goes when *manager* applies just *wanted*: all that it applied before, and that nobody else owns.

    A map or role goes whole, with the defaults in it, when nobody owns anything inside any more.
    """
    me = FieldManager(manager, ManagerOperation.APPLY, wanted)
    kept = wanted.union(*(owner.fields for owner in owners if not owner.is_one_with(me)))
    needed = {path[:length] for path in kept for length in range(1, len(path) + 1)}
    mine = NOTHING.union(*(owner.fields for owner in owners if owner.is_one_with(me)))
    goes = set()
    for path in mine - needed:
        shortest = next(size for size in range(_SHORTEST, len(path) + 1) if path[:size] not in needed)
        goes.add(path[:shortest])
    return frozenset(goes)


def clashes(
    live: Json, new: Json, owners: Owners, wanted: FieldSet, manager: str
) -> Sequence[ManagerConflict]:
    """What *manager*, who applies *wanted*, would change of what others own."""
    me = FieldManager(manager, ManagerOperation.APPLY, wanted)
    others = [owner for owner in owners if not owner.is_one_with(me)]
    changed = _changed(live, new, wanted)
    if others and changed and manager == KUBECTL:
        # Whoever applied them by itself goes on with the server's help: it is the same user's file.
        changed -= note_on(live).given
    return [
        ManagerConflict(owner, shown(path)) for owner in others for path in sorted(owner.fields & changed)
    ]


def after_apply(live: Json, new: Json, owners: Owners, wanted: FieldSet, manager: str, now: str) -> Owners:
    """The owners when *manager* has applied *wanted*: a field that it changed is its own, another is shared."""
    mine = frozenset(path for path in wanted if is_set(new, path))
    me = FieldManager(manager, ManagerOperation.APPLY, mine, now)
    return _with(_without(owners, me, _changed(live, new, mine), new), me)


def after_update(old: Json, new: Json, owners: Owners, manager: str, now: str) -> Owners:
    """The owners when *manager* has changed *old* into *new* in any other way: what is new there is its own."""
    changed = _changed(old, new, fields_in(new))
    me = FieldManager(manager, ManagerOperation.UPDATE, changed, now)
    before = NOTHING.union(*(owner.fields for owner in owners if owner.is_one_with(me)))
    mine = frozenset(path for path in before | changed if is_set(new, path))
    return _with(_without(owners, me, changed, new), replace(me, fields=mine))


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], fields: FieldSet) -> FieldSet:
    return frozenset(path for path in fields if is_set(new, path) and not is_same(old, new, path))


def _without(owners: Owners, me: FieldManager, taken: FieldSet, new: Json) -> Owners:
    """The owners; those other than me without what was *taken*, and without what is no longer there."""
    return tuple(
        owner if owner.is_one_with(me) else _holding(owner, owner.fields - taken, new) for owner in owners
    )


def _holding(owner: FieldManager, fields: FieldSet, new: Json) -> FieldManager:
    return replace(owner, fields=frozenset(path for path in fields if is_set(new, path)))


def _with(owners: Owners, me: FieldManager) -> Owners:
    """The owners with *me* among them; since when stays as it was, unless something changed."""
    if not any(owner.is_one_with(me) for owner in owners):
        return (*owners, me)
    return tuple(owner if not owner.is_one_with(me) or owner.fields == me.fields else me for owner in owners)
