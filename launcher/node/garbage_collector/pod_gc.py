"""Deletes pods whose node no longer exists."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from launcher.core.errors import NotFound
from launcher.core.events import ObjectEvent
from launcher.core.json_access import as_object
from launcher.core.pods.observed_pod import has_terminated, node_name
from launcher.node.garbage_collector.dependency_graph import COMPONENT
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import NODES, PODS, DeleteOptions, Key, Object, Store, key_of
from launcher.store.work_queue import WorkQueue, retry_on_error, run_workers

#: Grace period for a missing node, which may be registered again.
NODE_GONE_GRACE_SECONDS: Final = 40.0
_WORKERS: Final = 16


class PodGarbageCollector:
    """
    Deletes pods whose node has been missing for some time.

    A pod that has not terminated first fails with reason NodeLost, which is transient, and is then deleted with grace
    0.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._events = EventRecorder(store, clock, "garbage-collector")
        self._queue: WorkQueue[Key] = WorkQueue("pod-gc")
        self._node_names: set[str] = set()
        #: Uid and node of every pod with a node.
        self._assigned: dict[Key, tuple[str, str]] = {}
        self._pods_by_node: dict[str, dict[Key, None]] = {}
        self._is_synced = False

    async def run(self) -> None:
        """Runs until cancelled. Informers of nodes and pods must be synced."""
        self._is_synced = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            reconcile = retry_on_error(self._queue, self.reconcile, COMPONENT, PODS.plural)
            group.create_task(run_workers(self._queue, reconcile, _WORKERS))
            for node in list(self._pods_by_node):
                self._check(node)

    def pod_upserted(self, pod: Object) -> None:
        key = key_of(pod)
        node = node_name(pod) or ""
        assigned = (pod["metadata"]["uid"], node)
        if node and self._assigned.get(key) != assigned:
            self.pod_deleted(key)
            self._assigned[key] = assigned
            self._pods_by_node.setdefault(node, {})[key] = None
            if self._is_synced and node not in self._node_names:
                self._queue.add_after(key, NODE_GONE_GRACE_SECONDS)

    def pod_deleted(self, key: Key) -> None:
        if (assigned := self._assigned.pop(key, None)) is not None:
            node = assigned[1]
            del self._pods_by_node[node][key]
            if not self._pods_by_node[node]:
                del self._pods_by_node[node]

    def on_upsert(self, key: Key, _node: Object) -> None:
        self._node_names.add(key[1])

    def on_delete(self, key: Key) -> None:
        self._node_names.discard(key[1])
        if self._is_synced:
            self._check(key[1])

    def _check(self, node: str) -> None:
        if node not in self._node_names:
            for key in self._pods_by_node.get(node, ()):
                self._queue.add_after(key, NODE_GONE_GRACE_SECONDS)

    async def reconcile(self, key: Key) -> None:
        _, node = self._assigned.get(key, ("", ""))
        if not node or node in self._node_names or await self._node_exists(node):
            return
        with suppress(NotFound):
            pod = await self._store.get(PODS, *key)
            if node_name(pod) == node:
                await self._delete_pod(pod, node)

    async def _node_exists(self, node: str) -> bool:
        try:
            await self._store.get(NODES, "", node)
        except NotFound:
            return False
        return True

    async def _delete_pod(self, pod: Object, node: str) -> None:
        meta, status = pod["metadata"], as_object(pod.get("status"))
        if not has_terminated(pod):
            failure = {"phase": "Failed", "reason": "NodeLost", "message": f"Node {node} no longer exists."}
            pod = await self._store.update_status(PODS, {**pod, "status": {**status, **failure}})
            self._events.record(pod, [ObjectEvent("NodeLost", failure["message"], warning=True)])
        await self._store.delete(
            PODS, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"], grace=0)
        )
