"""Who owns whom: every object that can own or be owned, by uid, and the dependents of each owner."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from launcher.job_kinds.job_kind import FOREIGN
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORKS,
    PODS,
    SECRETS,
    SERVICES,
    Key,
    Object,
    ResourceKind,
    Version,
    key_of,
    version_of,
)

#: The kinds that own and are owned.
KINDS: Final = (*(each.kind for each in FOREIGN), FRAMEWORKS, PODS, SERVICES, CONFIG_MAPS, SECRETS)
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

_BY_NAME: Final = {(kind.group, kind.kind): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """A reference to an owner."""

    uid: str
    #: None for a kind of which we do not know what becomes of its objects.
    kind: ResourceKind | None
    name: str
    #: Whether the owner, deleted in the foreground, waits for this dependent.
    waits: bool


@dataclass(frozen=True, slots=True)
class DependencyNode:
    """One object, at one version."""

    kind: ResourceKind
    key: Key
    uid: str
    version: Version
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    @property
    def deleting_in_foreground(self) -> bool:
        """Whether it waits for its dependents to go before it."""
        return self.deleting and FOREGROUND in self.finalizers

    def waits_for(self, dependent: "DependencyNode") -> bool:
        return any(owner.uid == self.uid and owner.waits for owner in dependent.owners)


def item_of(kind: ResourceKind, obj: Object) -> DependencyNode:
    meta = obj["metadata"]
    return DependencyNode(
        kind=kind,
        key=key_of(obj),
        uid=meta["uid"],
        version=version_of(obj),
        owners=tuple(_owners(meta)),
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting="deletionTimestamp" in meta,
    )


def _owners(meta: Object) -> Iterator[OwnerReference]:
    """The references that can be read: what another one means is not known, and it holds nothing."""
    for reference in meta.get("ownerReferences") or ():
        fields = [reference.get(name) for name in ("apiVersion", "kind", "uid", "name")]
        if all(isinstance(field, str) for field in fields):
            version, kind, uid, name = fields
            owner = _BY_NAME.get((version.rpartition("/")[0], kind))
            yield OwnerReference(uid, owner, name, reference.get("blockOwnerDeletion") is True)


class Graph:
    """Everything that is known of who owns whom."""

    def __init__(self) -> None:
        self._items: dict[str, DependencyNode] = {}
        self._uids: dict[tuple[str, Key], str] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def items(self) -> Iterator[DependencyNode]:
        return iter(self._items.values())

    def get(self, uid: str) -> DependencyNode | None:
        return self._items.get(uid)

    def put(self, item: DependencyNode) -> DependencyNode | None:
        """Know the item; the one that had its name before, if that was another, is forgotten and returned."""
        place = item.kind.resource, item.key
        before = self._uids.get(place)
        replaced = self.drop(item.kind, item.key) if before not in (None, item.uid) else None
        known = self._items.get(item.uid)
        if known is not None and known.owners != item.owners:
            self._unlink(known)
        self._uids[place] = item.uid
        self._items[item.uid] = item
        for owner in item.owners:
            self._dependents.setdefault(owner.uid, {})[item.uid] = None
        return replaced

    def drop(self, kind: ResourceKind, key: Key) -> DependencyNode | None:
        """Forget what has that name; it is returned."""
        uid = self._uids.pop((kind.resource, key), None)
        if uid is None:
            return None
        item = self._items.pop(uid)
        self._unlink(item)
        return item

    def _unlink(self, item: DependencyNode) -> None:
        for owner in item.owners:
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.pop(item.uid, None)
                if not dependents:
                    del self._dependents[owner.uid]

    def dependents(self, uid: str) -> Iterator[DependencyNode]:
        """All that name this owner."""
        return (self._items[dependent] for dependent in self._dependents.get(uid, ()))

    def owner(self, item: DependencyNode, owner: OwnerReference) -> DependencyNode | None:
        """The object that a reference of *item* names, if it is known."""
        found = self._items.get(owner.uid)
        if found is None or (found.kind, found.key) != (owner.kind, (item.key[0], owner.name)):
            return None
        return found
