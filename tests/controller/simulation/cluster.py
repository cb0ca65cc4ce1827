"""The cluster around the launcher: a store that tells who watches, nodes that run pods, a garbage collector."""

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
BEGIN = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class SimulatedStore(MemoryStore):
    """A MemoryStore that lets an auditor see every write at the moment it takes effect."""

    def __init__(self, random: Random) -> None:
        #: How far the clock on the wall is off; it may jump.
        self.clock_error = 0.0
        self.audit: Callable[[str, bool, Object], None] = lambda resource, gone, obj: None
        super().__init__(self.clock, lambda: _uid(random))

    def clock(self) -> float:
        return BEGIN + asyncio.get_running_loop().time() + self.clock_error

    def _publish(self, entry: Entry) -> None:
        super()._publish(entry)
        self.audit(entry.row.resource, entry.happened is ChangeType.DELETED, entry.row.object())


def _uid(random: Random) -> str:
    text = f"{random.getrandbits(128):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Cluster:
    """Nodes that take pods and run them to the end that ``fate`` has for them, and the garbage collector."""

    def __init__(
        self, store: SimulatedStore, random: Random, fate: Callable[[Object], tuple[float, int]]
    ) -> None:
        self._store, self._random, self._fate = store, random, fate
        self.nodes = {f"node-{number}": asyncio.Event() for number in range(3)}
        for alive in self.nodes.values():
            alive.set()
        self._doomed: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._collect_garbage())
            async for change in self._store.watch(PODS, since=0):
                uid = change.object["metadata"]["uid"]
                doom = self._doomed.setdefault(uid, asyncio.Event())
                if change.happened is ChangeType.ADDED:
                    group.create_task(self._live(change.object, doom))
                if change.happened is ChangeType.DELETED or "deletionTimestamp" in change.object["metadata"]:
                    doom.set()

    async def lose_node(self, seconds: float) -> None:
        """One node does not answer for a while; what runs there goes on unseen."""
        name = self._random.choice(sorted(self.nodes))
        self.nodes[name].clear()
        await asyncio.sleep(seconds)
        self.nodes[name].set()

    async def _live(self, pod: Object, doom: asyncio.Event) -> None:
        """One pod's life. A user's own pod, which no Framework controls, just lies there."""
        if not pod["metadata"].get("ownerReferences"):
            return
        node = self._random.choice(sorted(self.nodes))
        try:
            await asyncio.sleep(self._random.expovariate(2))
            await self._change(
                pod, lambda now: {**now, "spec": {**now["spec"], "nodeName": node}}, status=False
            )
            await asyncio.sleep(self._random.expovariate(2))
            await self._report(pod, node, {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.0.2.1"})
            seconds, code = self._fate(pod)
            try:
                await asyncio.wait_for(doom.wait(), seconds)
            except TimeoutError:
                await self._report(pod, node, _ended(code))
                await doom.wait()
            await asyncio.sleep(self._random.expovariate(1))
            await self.nodes[node].wait()
            meta = pod["metadata"]
            await self._store.delete(
                PODS, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"], grace=0)
            )
        except (NotFound, Conflict):
            pass  # gone meanwhile, or another pod has its name

    async def _report(self, pod: Object, node: str, status: Object) -> None:
        await self.nodes[node].wait()
        await self._change(pod, lambda now: {**now, "status": status}, status=True)

    async def _change(self, pod: Object, change: Callable[[Object], Object], *, status: bool) -> None:
        meta = pod["metadata"]
        write = self._store.update_status if status else self._store.update
        now = await self._store.get(PODS, meta["namespace"], meta["name"])
        if now["metadata"]["uid"] != meta["uid"]:
            raise NotFound("another pod has its name")
        await write(PODS, change(now))

    async def _collect_garbage(self) -> None:
        """Pods go with their Framework: before it when it is deleted in the foreground, else after it."""
        while True:
            await asyncio.sleep(1.0)
            frameworks = {obj["metadata"]["uid"]: obj for obj in (await self._store.list(FRAMEWORKS)).items}
            pods = (await self._store.list(PODS)).items
            owned = [
                (pod, refs[0]["uid"]) for pod in pods if (refs := pod["metadata"].get("ownerReferences"))
            ]
            for pod, owner in owned:
                going = owner not in frameworks or FOREGROUND in _finalizers(frameworks[owner])
                if going and "deletionTimestamp" not in pod["metadata"]:
                    await self._remove(PODS, pod)
            for uid, framework in frameworks.items():
                if FOREGROUND in _finalizers(framework) and uid not in {owner for _, owner in owned}:
                    left = [name for name in _finalizers(framework) if name != FOREGROUND]
                    meta = framework["metadata"]
                    patch = MergePatch({"metadata": {"finalizers": left}})
                    await self._store.patch(FRAMEWORKS, meta["namespace"], meta["name"], patch)

    async def _remove(self, kind: ResourceKind, obj: Object) -> None:
        meta = obj["metadata"]
        with suppress(NotFound, Conflict):
            await self._store.delete(kind, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"]))


def _finalizers(obj: Object) -> list[Any]:
    return obj["metadata"].get("finalizers") or []


def _ended(code: int) -> Object:
    terminated = {"exitCode": code, "reason": "Error" if code else "Completed"}
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}],
    }
