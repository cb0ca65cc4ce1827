"""
Garbage collector for local mode.

* Dependents are deleted when all their owners are deleted, and before an owner that is deleted in the foreground.
* With propagation Orphan the owner reference is removed first, so that the dependent stays.
* Objects in a deleted namespace are deleted before it.
* Pods are deleted when their node no longer exists, events when they are old.

Every object is reconciled until nothing is left to do, and every deletion has preconditions, so interrupted work is
simply continued. An owner that was not observed is read from the store before anything is deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Final

from launcher.core.errors import NotFound
from launcher.core.names import PodIdentityKey
from launcher.node.garbage_collector.dependency_graph import (
    COMPONENT,
    FOREGROUND,
    ORPHAN,
    DependencyGraph,
    DependencyNode,
    OwnerReference,
    dependency_node,
    group_kind,
)
from launcher.node.garbage_collector.namespace_controller import NamespaceController, delete_old_events
from launcher.node.garbage_collector.pod_gc import PodGarbageCollector
from launcher.store.informer import EventHandlerFuncs, SharedInformers
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORK_ATTEMPTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    Propagation,
    ResourceKind,
    Store,
)
from launcher.store.selectors import Selector
from launcher.store.work_queue import WorkQueue, retry_on_error, run_workers

log = logging.getLogger(__name__)

EVENT_TTL_SECONDS: Final = 3600.0
_WORKERS: Final = 16
_KINDS: Final = (FRAMEWORKS, FRAMEWORK_ATTEMPTS, PODS, SERVICES, CONFIG_MAPS, SECRETS)


class OwnerState(Enum):
    """State of an owner."""

    EXISTS = auto()
    #: It waits for its dependents.
    DELETING_IN_FOREGROUND = auto()
    DELETED = auto()


class GarbageCollector:
    """Collects garbage until cancelled."""

    def __init__(
        self,
        store: Store,
        informers: SharedInformers,
        *,
        clock: Callable[[], float],
        job_kinds: Sequence[ResourceKind] = (),
        event_ttl: float = EVENT_TTL_SECONDS,
    ) -> None:
        """
        *job_kinds* are the kinds that own Frameworks. The caller runs *informers*.

        Events are deleted *event_ttl* seconds after they were last written.
        """
        self._store, self._clock, self._event_ttl = store, clock, event_ttl
        self._graph = DependencyGraph()
        #: The uids of objects to reconcile.
        self._queue: WorkQueue[str] = WorkQueue("garbage-collector")
        self._pod_gc = PodGarbageCollector(store, clock)
        self._namespaces = NamespaceController(store, job_kinds)
        #: Kinds that can be owners or dependents.
        self._kinds = {group_kind(kind): kind for kind in (*job_kinds, *_KINDS)}
        self._informers = {
            kind: informers.add_event_handler(
                kind,
                EventHandlerFuncs(partial(self._on_upsert, kind), partial(self._on_delete, kind)),
                component=COMPONENT,
            )
            for kind in self._kinds.values()
        }
        self._nodes = informers.add_event_handler(NODES, self._pod_gc, component=COMPONENT)
        informers.add_event_handler(NAMESPACES, self._namespaces, component=COMPONENT)
        #: Set when all kinds are synced: before that, an unobserved owner may exist.
        self._is_synced = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in (*self._informers.values(), self._nodes):
                await informer.synced.wait()
            self._is_synced = True
            for item in self._graph.items():
                self._enqueue_if_needed(item)
            reconcile = retry_on_error(self._queue, self.reconcile, COMPONENT, "objects")
            group.create_task(run_workers(self._queue, reconcile, _WORKERS))
            group.create_task(self._namespaces.run())
            group.create_task(self._pod_gc.run())
            group.create_task(delete_old_events(self._store, self._clock, self._event_ttl))

    # Event handlers.

    def _on_upsert(self, kind: ResourceKind, _key: Key, obj: Object) -> None:
        item = dependency_node(kind, obj)
        if (replaced := self._graph.put(item)) is not None:
            self._on_removed(replaced)
        if self._is_synced:
            self._enqueue_if_needed(item)
        if kind is PODS:
            self._pod_gc.pod_upserted(obj)

    def _on_delete(self, kind: ResourceKind, key: Key) -> None:
        if (item := self._graph.drop(kind, key)) is not None:
            self._on_removed(item)
        if kind is PODS:
            self._pod_gc.pod_deleted(key)

    def _on_removed(self, item: DependencyNode) -> None:
        """Enqueues the dependents and the waiting owners of a removed object."""
        for dependent in self._graph.dependents(item.uid):
            self._queue.add(dependent.uid)
        for owner in item.owners:
            if (observed := self._graph.owner(item, owner)) is not None and observed.deleting_in_foreground:
                self._queue.add(observed.uid)

    def _enqueue_if_needed(self, item: DependencyNode) -> None:
        """Enqueues the object if it may have to be changed."""
        if item.deleting:
            if item.deleting_in_foreground or ORPHAN in item.finalizers:
                self._queue.add(item.uid)
        elif any(self._observed_owner_state(item, owner) is not OwnerState.EXISTS for owner in item.owners):
            self._queue.add(item.uid)

    # Reconciliation.

    async def reconcile(self, uid: str) -> None:
        item = self._graph.get(uid)
        if item is None:
            return
        if item.deleting and ORPHAN in item.finalizers:
            await self._orphan(item)
        elif item.deleting_in_foreground:
            await self._delete_dependents(item)
        elif not item.deleting and item.owners:
            await self._check_owners(item)

    async def _check_owners(self, item: DependencyNode) -> None:
        """Deletes an object without existing owners; otherwise removes references to deleted owners."""
        states = {owner.uid: await self._owner_state(item, owner) for owner in item.owners}
        missing = {uid for uid, state in states.items() if state is not OwnerState.EXISTS}
        if not missing:
            return
        if len(missing) < len(states):
            await self._remove_references(item.kind, item.key, missing)
            return
        # Its dependents are deleted first if its owner waits for all of them.
        in_foreground = OwnerState.DELETING_IN_FOREGROUND in states.values() and any(
            self._graph.dependents(item.uid)
        )
        await self._delete(item, Propagation.FOREGROUND if in_foreground else None)

    def _observed_owner_state(self, item: DependencyNode, owner: OwnerReference) -> OwnerState | None:
        """Returns the state without reading the store, or None."""
        if owner.kind not in self._kinds:
            return OwnerState.EXISTS
        observed = self._graph.owner(item, owner)
        if observed is None:
            return None
        return OwnerState.DELETING_IN_FOREGROUND if observed.deleting_in_foreground else OwnerState.EXISTS

    async def _owner_state(self, item: DependencyNode, owner: OwnerReference) -> OwnerState:
        if (observed := self._observed_owner_state(item, owner)) is not None:
            return observed
        kind = self._kinds[owner.kind]
        try:
            live = await self._store.get(kind, item.key[0], owner.name)
        except NotFound:
            return OwnerState.DELETED
        if live["metadata"]["uid"] != owner.uid:
            return OwnerState.DELETED
        return (
            OwnerState.DELETING_IN_FOREGROUND
            if dependency_node(kind, live).deleting_in_foreground
            else OwnerState.EXISTS
        )

    async def _delete(self, item: DependencyNode, propagation: Propagation | None) -> None:
        log.info("deleting orphaned object", extra={"kind": item.kind.plural, "object": item.key})
        # With the version that was checked: another client may have removed the reference since.
        options = DeleteOptions(uid=item.uid, version=item.version, propagation=propagation)
        with suppress(NotFound):
            await self._store.delete(item.kind, *item.key, options)

    async def _delete_dependents(self, owner: DependencyNode) -> None:
        """Enqueues the dependents; removes the owner's finalizer when none is left that it waits for."""
        waiting = False
        for dependent in list(self._graph.dependents(owner.uid)):
            waiting |= owner.waits_for(dependent)
            if not dependent.deleting:
                self._queue.add(dependent.uid)
        if waiting or await self._has_unobserved_pods(owner):
            return
        await self._remove_finalizer(owner, FOREGROUND)

    async def _has_unobserved_pods(self, owner: DependencyNode) -> bool:
        """
        Whether a Framework has pods that the informer has not reported.

        No pod may outlive its Framework, so the store is read.
        """
        if owner.kind != FRAMEWORKS:
            return False
        namespace, name = owner.key
        page = await self._store.list(
            PODS, namespace, Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: name})
        )
        remaining = [pod for pod in page.items if owner.waits_for(dependency_node(PODS, pod))]
        for pod in remaining:
            self._informers[PODS].upsert(pod)
        if remaining:
            self._queue.add_after(owner.uid, 1.0)
        return bool(remaining)

    async def _orphan(self, owner: DependencyNode) -> None:
        """Removes all references to the owner, then its finalizer. Lists all kinds: this is rare."""
        for kind in self._kinds.values():
            page = await self._store.list(kind, owner.key[0])
            for obj in page.items:
                item = dependency_node(kind, obj)
                if any(reference.uid == owner.uid for reference in item.owners):
                    await self._remove_references(kind, item.key, {owner.uid})
        await self._remove_finalizer(owner, ORPHAN)

    async def _remove_references(self, kind: ResourceKind, key: Key, uids: set[str]) -> None:
        """Removes the references to these owners from an object."""
        with suppress(NotFound):
            live = await self._store.get(kind, *key)
            meta = live["metadata"]
            references = [
                reference for reference in meta.get("ownerReferences") or () if reference["uid"] not in uids
            ]
            change = {"resourceVersion": meta["resourceVersion"], "ownerReferences": references or None}
            self._informers[kind].upsert(
                await self._store.patch(kind, *key, MergePatch({"metadata": change}))
            )

    async def _remove_finalizer(self, owner: DependencyNode, finalizer: str) -> None:
        """Removes *finalizer* from the owner."""
        with suppress(NotFound):
            live = await self._store.get(owner.kind, *owner.key)
            meta = live["metadata"]
            if meta["uid"] != owner.uid or finalizer not in (meta.get("finalizers") or ()):
                return
            remaining = [name for name in meta["finalizers"] if name != finalizer]
            change = {"resourceVersion": meta["resourceVersion"], "finalizers": remaining or None}
            await self._store.patch(owner.kind, *owner.key, MergePatch({"metadata": change}))
