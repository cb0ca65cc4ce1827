"""The dependency graph of the garbage collector: objects by uid, and the dependents of each owner."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from launcher.core.pods.observed_pod import is_deleted
from launcher.store.interface import Key, Object, ResourceKind, Version, key_of, version_of

#: Name of the component in errors and informers.
COMPONENT: Final = "garbage-collector"
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

#: The API group and the name of a kind, which owner references contain.
GroupKind = tuple[str, str]


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """A reference to an owner."""

    uid: str
    kind: GroupKind
    name: str
    #: blockOwnerDeletion: an owner deleted in the foreground waits for this dependent.
    blocks_owner_deletion: bool


@dataclass(frozen=True, slots=True)
class DependencyNode:
    """One object at one version."""

    kind: ResourceKind
    key: Key
    uid: str
    version: Version
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    @property
    def deleting_in_foreground(self) -> bool:
        """Whether it waits for its dependents to be deleted."""
        return self.deleting and FOREGROUND in self.finalizers

    def waits_for(self, dependent: "DependencyNode") -> bool:
        return any(owner.uid == self.uid and owner.blocks_owner_deletion for owner in dependent.owners)


def group_kind(kind: ResourceKind) -> GroupKind:
    return kind.group, kind.kind


def dependency_node(kind: ResourceKind, obj: Object) -> DependencyNode:
    meta = obj["metadata"]
    return DependencyNode(
        kind=kind,
        key=key_of(obj),
        uid=meta["uid"],
        version=version_of(obj),
        owners=tuple(_owners(meta)),
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting=is_deleted(obj),
    )


def _owners(meta: Object) -> Iterator[OwnerReference]:
    """Yields the valid references. Others have no effect."""
    for reference in meta.get("ownerReferences") or ():
        fields = [reference.get(name) for name in ("apiVersion", "kind", "uid", "name")]
        if all(isinstance(field, str) for field in fields):
            version, kind, uid, name = fields
            group = version.rpartition("/")[0]
            yield OwnerReference(uid, (group, kind), name, reference.get("blockOwnerDeletion") is True)


class DependencyGraph:
    """All observed objects and their owners."""

    def __init__(self) -> None:
        self._items: dict[str, DependencyNode] = {}
        self._uids: dict[tuple[str, Key], str] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def items(self) -> Iterator[DependencyNode]:
        return iter(self._items.values())

    def get(self, uid: str) -> DependencyNode | None:
        return self._items.get(uid)

    def put(self, item: DependencyNode) -> DependencyNode | None:
        """Adds or updates an object. Returns the removed object if another one had the same name."""
        name_key = item.kind.resource, item.key
        before = self._uids.get(name_key)
        replaced = self.drop(item.kind, item.key) if before not in (None, item.uid) else None
        observed = self._items.get(item.uid)
        if observed is not None and observed.owners != item.owners:
            self._unlink(observed)
        self._uids[name_key] = item.uid
        self._items[item.uid] = item
        for owner in item.owners:
            self._dependents.setdefault(owner.uid, {})[item.uid] = None
        return replaced

    def drop(self, kind: ResourceKind, key: Key) -> DependencyNode | None:
        """Removes and returns the object of that name, or None."""
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
        """Yields the objects with this owner."""
        return (self._items[dependent] for dependent in self._dependents.get(uid, ()))

    def owner(self, item: DependencyNode, owner: OwnerReference) -> DependencyNode | None:
        """Returns the owner that a reference of *item* names, or None if it was not observed."""
        owner_item = self._items.get(owner.uid)
        if owner_item is None or (group_kind(owner_item.kind), owner_item.key) != (
            owner.kind,
            (item.key[0], owner.name),
        ):
            return None
        return owner_item
