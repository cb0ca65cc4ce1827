"""
The garbage collector of local mode: what nobody wants any more goes.

* What is owned goes when all its owners are gone, and before an owner that is deleted in the foreground.
* What an owner leaves behind as an orphan loses its reference first, so that it stays.
* What stands in a namespace that is deleted goes before it.
* Pods go when their node is no longer there, events when they are old.

Each is looked at again until it is as it should be, and every deletion names the object that it means, so whatever
fails or stops half-way is simply gone on with. An owner that is not known is asked for in the store before anything is
deleted.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from launcher.core.errors import NotFound
from launcher.core.names import PodIdentityKey
from launcher.node.garbage_collector.dependency_graph import (
    FOREGROUND,
    KINDS,
    ORPHAN,
    DependencyNode,
    Graph,
    OwnerReference,
    item_of,
)
from launcher.node.garbage_collector.namespace_controller import NamespaceSweeper, old_events
from launcher.node.garbage_collector.pod_gc import LostPods
from launcher.node.garbage_collector.workers import COMPONENT, Chores
from launcher.store.informer import Informer
from launcher.store.interface import (
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    Propagation,
    ResourceKind,
    Store,
)
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

EVENTS_KEPT: Final = 3600.0


class OwnerState(Enum):
    """What has become of an owner."""

    THERE = auto()
    #: Deleted in the foreground: it waits for its dependents.
    EMPTYING = auto()
    GONE = auto()


class GarbageCollector:
    """Collects garbage until cancelled."""

    def __init__(self, store: Store, *, clock: Callable[[], float], events_kept: float = EVENTS_KEPT) -> None:
        """Events are kept for so many seconds after they were last written."""
        self._store, self._clock, self._events_kept = store, clock, events_kept
        self._graph = Graph()
        self._chores: Chores[str] = Chores(self._attend, "objects")
        self._lost = LostPods(store, clock)
        self._namespaces = NamespaceSweeper(store)
        self._informers = {
            kind: Informer(store, kind, _Items(self, kind), component=COMPONENT) for kind in KINDS
        }
        #: Set once everything is known: before that, an owner that is not known proves nothing.
        self._complete = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            nodes = Informer(self._store, NODES, self._lost.nodes, component=COMPONENT)
            informers = [*self._informers.values(), nodes]
            for informer in informers:
                group.create_task(informer.run())
            for informer in informers:
                await informer.synced.wait()
            self._complete = True
            for item in self._graph.items():
                self._consider(item)
            namespaces = Informer(self._store, NAMESPACES, self._namespaces, component=COMPONENT)
            group.create_task(namespaces.run())
            group.create_task(self._chores.run())
            group.create_task(self._namespaces.run())
            group.create_task(self._lost.run())
            group.create_task(old_events(self._store, self._clock, self._events_kept))

    # What the informers tell.

    def seen(self, kind: ResourceKind, obj: Object) -> None:
        item = item_of(kind, obj)
        if (replaced := self._graph.put(item)) is not None:
            self._left(replaced)
        if self._complete:
            self._consider(item)
        if kind is PODS:
            self._lost.seen(obj)

    def gone(self, kind: ResourceKind, key: Key) -> None:
        if (item := self._graph.drop(kind, key)) is not None:
            self._left(item)
        if kind is PODS:
            self._lost.gone(key)

    def _left(self, item: DependencyNode) -> None:
        """Its dependents have an owner less, and its owners a dependent."""
        for dependent in self._graph.dependents(item.uid):
            self._chores.add(dependent.uid)
        for owner in item.owners:
            if (known := self._graph.owner(item, owner)) is not None and known.deleting_in_foreground:
                self._chores.add(known.uid)

    def _consider(self, item: DependencyNode) -> None:
        """Have the item attended to if there may be something to do."""
        if item.deleting:
            if item.deleting_in_foreground or ORPHAN in item.finalizers:
                self._chores.add(item.uid)
        elif any(self._known_fate(item, owner) is not OwnerState.THERE for owner in item.owners):
            self._chores.add(item.uid)

    # What is done.

    async def _attend(self, uid: str) -> None:
        item = self._graph.get(uid)
        if item is None:
            return
        if item.deleting and ORPHAN in item.finalizers:
            await self._orphan(item)
        elif item.deleting_in_foreground:
            await self._empty(item)
        elif not item.deleting and item.owners:
            await self._judge(item)

    async def _judge(self, item: DependencyNode) -> None:
        """Delete what has no owner left; take the other references from what has one."""
        fates = {owner.uid: await self._fate(item, owner) for owner in item.owners}
        lost = {uid for uid, fate in fates.items() if fate is not OwnerState.THERE}
        if not lost:
            return
        if len(lost) < len(fates):
            await self._disown(item.kind, item.key, lost)
            return
        # Its own dependents go first when its owner waits for all of them.
        chained = OwnerState.EMPTYING in fates.values() and any(self._graph.dependents(item.uid))
        await self._delete(item, Propagation.FOREGROUND if chained else None)

    def _known_fate(self, item: DependencyNode, owner: OwnerReference) -> OwnerState | None:
        """As far as is known without asking the store."""
        if owner.kind is None:
            return OwnerState.THERE
        known = self._graph.owner(item, owner)
        if known is None:
            return None
        return OwnerState.EMPTYING if known.deleting_in_foreground else OwnerState.THERE

    async def _fate(self, item: DependencyNode, owner: OwnerReference) -> OwnerState:
        if (known := self._known_fate(item, owner)) is not None:
            return known
        assert owner.kind is not None
        try:
            live = await self._store.get(owner.kind, item.key[0], owner.name)
        except NotFound:
            return OwnerState.GONE
        if live["metadata"]["uid"] != owner.uid:
            return OwnerState.GONE
        return OwnerState.EMPTYING if item_of(owner.kind, live).deleting_in_foreground else OwnerState.THERE

    async def _delete(self, item: DependencyNode, propagation: Propagation | None) -> None:
        log.info("deleting what nobody owns", extra={"kind": item.kind.plural, "object": item.key})
        # As it was judged: meanwhile somebody may have taken the reference from it, so that it stays.
        how = DeleteOptions(uid=item.uid, version=item.version, propagation=propagation)
        with suppress(NotFound):
            await self._store.delete(item.kind, *item.key, how)

    async def _empty(self, owner: DependencyNode) -> None:
        """Have the dependents deleted; when none is left to wait for, let the owner go."""
        waiting = False
        for dependent in list(self._graph.dependents(owner.uid)):
            waiting |= owner.waits_for(dependent)
            if not dependent.deleting:
                self._chores.add(dependent.uid)
        if waiting or await self._unheard_of(owner):
            return
        await self._remove_finalizer(owner, FOREGROUND)

    async def _unheard_of(self, owner: DependencyNode) -> bool:
        """
        Whether a Framework still has pods that nobody has told us of.

        That no pod is left of a Framework which is gone is promised, so it is not left to what was heard.
        """
        if owner.kind != FRAMEWORKS:
            return False
        namespace, name = owner.key
        page = await self._store.list(
            PODS, namespace, Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: name})
        )
        left = [pod for pod in page.items if owner.waits_for(item_of(PODS, pod))]
        for pod in left:
            self._informers[PODS].upsert(pod)
        if left:
            self._chores.later(owner.uid, 1.0)
        return bool(left)

    async def _orphan(self, owner: DependencyNode) -> None:
        """Take the reference to it from all that name it, then let it go. Looks at everything: this is rare."""
        for kind in KINDS:
            page = await self._store.list(kind, owner.key[0])
            for obj in page.items:
                item = item_of(kind, obj)
                if any(reference.uid == owner.uid for reference in item.owners):
                    await self._disown(kind, item.key, {owner.uid})
        await self._remove_finalizer(owner, ORPHAN)

    async def _disown(self, kind: ResourceKind, key: Key, uids: set[str]) -> None:
        """Take the references to these owners from an object."""
        with suppress(NotFound):
            live = await self._store.get(kind, *key)
            meta = live["metadata"]
            references = [one for one in meta.get("ownerReferences") or () if one["uid"] not in uids]
            change = {"resourceVersion": meta["resourceVersion"], "ownerReferences": references or None}
            self._informers[kind].upsert(
                await self._store.patch(kind, *key, MergePatch({"metadata": change}))
            )

    async def _remove_finalizer(self, owner: DependencyNode, finalizer: str) -> None:
        """Nothing holds the owner back any more as far as *finalizer* goes."""
        with suppress(NotFound):
            live = await self._store.get(owner.kind, *owner.key)
            meta = live["metadata"]
            if meta["uid"] != owner.uid or finalizer not in (meta.get("finalizers") or ()):
                return
            left = [name for name in meta["finalizers"] if name != finalizer]
            change = {"resourceVersion": meta["resourceVersion"], "finalizers": left or None}
            await self._store.patch(owner.kind, *owner.key, MergePatch({"metadata": change}))


class _Items:
    def __init__(self, collector: GarbageCollector, kind: ResourceKind) -> None:
        self._collector, self._kind = collector, kind

    def on_upsert(self, _key: Key, obj: Object) -> None:
        self._collector.seen(self._kind, obj)

    def on_delete(self, key: Key) -> None:
        self._collector.gone(self._kind, key)
