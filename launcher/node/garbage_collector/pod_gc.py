"""Pods whose node is no longer there: nobody runs them any more, so they are ended for it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from launcher.core.errors import NotFound
from launcher.core.planning.actions import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.validation.pod_template import as_object
from launcher.node.garbage_collector.workers import Chores
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import NODES, PODS, DeleteOptions, Key, Object, Store, key_of

#: Seconds for which a node may be away before its pods are ended: it may only be registered anew.
NODE_GONE_GRACE_SECONDS: Final = 40.0


class LostPods:
    """
    Ends pods whose node has been gone for a while.

    A pod that had not ended is told to have failed for the reason NodeLost, which is worth another try, then deleted
    without asking its node.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._events = EventRecorder(store, clock, "garbage-collector")
        self._chores: Chores[Key] = Chores(self._attend, PODS.plural)
        self._names: set[str] = set()
        #: The uid of every pod that has a node, and the node's name.
        self._placed: dict[Key, tuple[str, str]] = {}
        self._pods_of: dict[str, dict[Key, None]] = {}
        self._complete = False
        self.nodes = _Nodes(self)

    async def run(self) -> None:
        """Work until cancelled. All nodes and pods that there are have been seen."""
        self._complete = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._chores.run())
            for node in list(self._pods_of):
                self._check(node)

    def seen(self, pod: Object) -> None:
        key = key_of(pod)
        node = as_object(pod.get("spec")).get("nodeName") or ""
        placed = (pod["metadata"]["uid"], node)
        if node and self._placed.get(key) != placed:
            self.gone(key)
            self._placed[key] = placed
            self._pods_of.setdefault(node, {})[key] = None
            if self._complete and node not in self._names:
                self._chores.later(key, NODE_GONE_GRACE_SECONDS)

    def gone(self, key: Key) -> None:
        if (placed := self._placed.pop(key, None)) is not None:
            node = placed[1]
            del self._pods_of[node][key]
            if not self._pods_of[node]:
                del self._pods_of[node]

    def node_seen(self, name: str) -> None:
        self._names.add(name)

    def node_gone(self, name: str) -> None:
        self._names.discard(name)
        if self._complete:
            self._check(name)

    def _check(self, node: str) -> None:
        if node not in self._names:
            for key in self._pods_of.get(node, ()):
                self._chores.later(key, NODE_GONE_GRACE_SECONDS)

    async def _attend(self, key: Key) -> None:
        _, node = self._placed.get(key, ("", ""))
        if not node or node in self._names or await self._is_there(node):
            return
        with suppress(NotFound):
            pod = await self._store.get(PODS, *key)
            if pod["spec"].get("nodeName") == node:
                await self._end(pod, node)

    async def _is_there(self, node: str) -> bool:
        try:
            await self._store.get(NODES, "", node)
        except NotFound:
            return False
        return True

    async def _end(self, pod: Object, node: str) -> None:
        meta, status = pod["metadata"], as_object(pod.get("status"))
        if not has_terminated(pod):
            why = {"phase": "Failed", "reason": "NodeLost", "message": f"there is no node {node}"}
            pod = await self._store.update_status(PODS, {**pod, "status": {**status, **why}})
            self._events.record(pod, [ObjectEvent("NodeLost", why["message"], warning=True)])
        await self._store.delete(
            PODS, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"], grace=0)
        )


class _Nodes:
    def __init__(self, lost: LostPods) -> None:
        self._lost = lost

    def on_upsert(self, key: Key, _obj: Object) -> None:
        self._lost.node_seen(key[1])

    def on_delete(self, key: Key) -> None:
        self._lost.node_gone(key[1])
