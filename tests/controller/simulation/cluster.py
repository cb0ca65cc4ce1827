"""A simulated cluster: a store with an audit hook, nodes that run pods, a garbage collector."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from launcher.core.errors import Conflict, NotFound
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.rows import Entry
from launcher.store.interface import (
    FRAMEWORKS,
    PODS,
    ChangeType,
    DeleteOptions,
    MergePatch,
    Object,
    ResourceKind,
)

FOREGROUND = "foregroundDeletion"
_RUNNING = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "hostIP": "192.0.2.1",
    "containerStatuses": [{"name": "c", "state": {"running": {}}}],
}
START_TIME = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class SimulatedStore(MemoryStore):
    """A MemoryStore that passes every write to an auditor at the moment it takes effect."""

    def __init__(self, random: Random) -> None:
        #: The error of the wall clock in seconds.
        self.clock_error = 0.0
        self.audit: Callable[[str, bool, Object], None] = lambda resource, deleted, obj: None
        super().__init__(self.clock, lambda: _uid(random))

    def clock(self) -> float:
        return START_TIME + asyncio.get_running_loop().time() + self.clock_error

    def _publish(self, entry: Entry) -> None:
        super()._publish(entry)
        self.audit(entry.row.resource, entry.type is ChangeType.DELETED, entry.row.object())


def _uid(random: Random) -> str:
    text = f"{random.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class SimulatedCluster:
    """Nodes, which run each pod for the seconds and with the exit code of *outcome*, and the garbage collector."""

    def __init__(
        self, store: SimulatedStore, random: Random, outcome: Callable[[Object], tuple[float, int]]
    ) -> None:
        self._store, self._random, self._outcome = store, random, outcome
        self.nodes = {f"node-{number}": asyncio.Event() for number in range(3)}
        for reachable in self.nodes.values():
            reachable.set()
        self._deleted: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect_garbage())
            async for change in self._store.watch(PODS, since=0):
                uid = change.object["metadata"]["uid"]
                deleted = self._deleted.setdefault(uid, asyncio.Event())
                if change.type is ChangeType.ADDED:
                    group.create_task(self._run_pod(change.object, deleted))
                if change.type is ChangeType.DELETED or "deletionTimestamp" in change.object["metadata"]:
                    deleted.set()

    async def disconnect_node(self, seconds: float) -> None:
        """Disconnects a node for some time; its pods keep running."""
        name = self._random.choice(sorted(self.nodes))
        self.nodes[name].clear()
        await asyncio.sleep(seconds)
        self.nodes[name].set()

    async def _run_pod(self, pod: Object, deleted: asyncio.Event) -> None:
        """Runs one pod until it is deleted. Pods without a controller stay pending."""
        if not pod["metadata"].get("ownerReferences"):
            return
        node = self._random.choice(sorted(self.nodes))
        try:
            await asyncio.sleep(self._random.expovariate(2))
            await self._update(
                pod, lambda live: {**live, "spec": {**live["spec"], "nodeName": node}}, status=False
            )
            await asyncio.sleep(self._random.expovariate(2))
            await self._report(pod, node, _RUNNING)
            seconds, code = self._outcome(pod)
            try:
                await asyncio.wait_for(deleted.wait(), seconds)
            except TimeoutError:
                await self._report(pod, node, _terminated_status(code))
                await deleted.wait()
            await asyncio.sleep(self._random.expovariate(1))
            await self.nodes[node].wait()
            meta = pod["metadata"]
            await self._store.delete(
                PODS, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"], grace=0)
            )
        except (NotFound, Conflict):
            pass  # deleted, or another pod has its name

    async def _report(self, pod: Object, node: str, status: Object) -> None:
        await self.nodes[node].wait()
        await self._update(pod, lambda live: {**live, "status": status}, status=True)

    async def _update(self, pod: Object, change: Callable[[Object], Object], *, status: bool) -> None:
        meta = pod["metadata"]
        write = self._store.update_status if status else self._store.update
        live = await self._store.get(PODS, meta["namespace"], meta["name"])
        if live["metadata"]["uid"] != meta["uid"]:
            raise NotFound("another pod has this name")
        await write(PODS, change(live))

    async def _collect_garbage(self) -> None:
        """Deletes the pods of deleted Frameworks; with foreground deletion, before the Framework."""
        version = -1
        while True:
            await asyncio.sleep(1.0)
            if version == self._store.version:
                continue  # nothing has changed since the last time
            version = self._store.version
            frameworks = {obj["metadata"]["uid"]: obj for obj in (await self._store.list(FRAMEWORKS)).items}
            pods = (await self._store.list(PODS)).items
            owned = [
                (pod, refs[0]["uid"]) for pod in pods if (refs := pod["metadata"].get("ownerReferences"))
            ]
            for pod, owner in owned:
                must_delete = owner not in frameworks or FOREGROUND in _finalizers(frameworks[owner])
                if must_delete and "deletionTimestamp" not in pod["metadata"]:
                    await self._delete(PODS, pod)
            for uid, framework in frameworks.items():
                if FOREGROUND in _finalizers(framework) and uid not in {owner for _, owner in owned}:
                    finalizers = [name for name in _finalizers(framework) if name != FOREGROUND]
                    meta = framework["metadata"]
                    patch = MergePatch({"metadata": {"finalizers": finalizers}})
                    await self._store.patch(FRAMEWORKS, meta["namespace"], meta["name"], patch)

    async def _delete(self, kind: ResourceKind, obj: Object) -> None:
        meta = obj["metadata"]
        with suppress(NotFound, Conflict):
            await self._store.delete(kind, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"]))


def _finalizers(obj: Object) -> list[Any]:
    return obj["metadata"].get("finalizers") or []


def _terminated_status(code: int) -> Object:
    terminated = {"exitCode": code, "reason": "Error" if code else "Completed"}
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}],
    }
