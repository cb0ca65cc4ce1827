"""Gates in any mix of gangs: nobody is let through for whom there is no room, and everybody is at last."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from random import Random
from typing import Any, Literal

import pytest

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.gate_controller import GateController
from launcher.controller.gang.gated_gangs import extras, is_gated
from launcher.scheduling.capacity import ClusterCapacity
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import NODES, PODS, Change, MergePatch, Object
from tests.controller.gang.builders import NOW, a_gang, asking, pods_of, stored
from tests.controller.simulation.virtual_time import run
from tests.core.manifests import a_role
from tests.store.builders import uids

#: Virtual seconds in which every gang has had its turn.
LONGEST = 10_000.0
GANGS = 8


class Lagging(MemoryStore):
    """One whose watches tell each change a while after it was made, and each watch at its own pace."""

    def __init__(self, random: Random) -> None:
        super().__init__(lambda: NOW, uids())
        self._random = random

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[Change]:
        async for change in super().watch(*args, **more):
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.2, 2.0)))
            yield change


class Cluster:
    """Nodes of so many slots, a scheduler that takes pods in any order, and pods that run for a while."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = Lagging(self.random)
        #: No more gangs come.
        self.all_there = False
        self.slots = {f"n{number}": self.random.randint(1, 4) for number in range(self.random.randint(2, 4))}

    async def begin(self) -> None:
        for name, cpu in self.slots.items():
            has = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            await self.store.create(NODES, {**node, "status": {"allocatable": has}})

    async def submit(self, name: str) -> None:
        tasks = self.random.randint(1, sum(self.slots.values()))
        framework = await stored(self.store, a_gang(a_role(tasks=tasks, pod=asking("1")), name=name))
        for pod in pods_of(framework, extras(GangRequest(framework, 0))):
            await self.store.create(PODS, pod)
            await asyncio.sleep(self.random.choice((0.0, 0.1)))

    async def schedule(self) -> None:
        """Give one pod after the other a node; each that was let through must find one."""
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 0.5))
            going = [
                pod for pod in await self._pods() if not is_gated(pod) and not pod["spec"].get("nodeName")
            ]
            if not going:
                continue
            free = [name for name, left in (await self._free()).items() if left]
            assert free, f"{len(going)} pods were let through, and no node has room"
            change = {"spec": {"nodeName": self.random.choice(free)}}
            await self._change(self.random.choice(going), change)

    async def end(self) -> None:
        """Let one pod after the other come to its end, until there is none left of any gang."""
        while not self.all_there or await self._pods():
            await asyncio.sleep(self.random.uniform(0.0, 4.0))
            placed = [pod for pod in await self._pods() if pod["spec"].get("nodeName")]
            if placed:
                await self._change(self.random.choice(placed), {"status": {"phase": "Succeeded"}}, "status")

    async def _pods(self) -> list[Object]:
        """Those that have not ended."""
        pods = (await self.store.list(PODS)).items
        return [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]

    async def _free(self) -> Counter[str]:
        return Counter(self.slots) - Counter(pod["spec"].get("nodeName", "") for pod in await self._pods())

    async def _change(self, pod: Object, change: Any, subresource: Literal["status"] | None = None) -> None:
        name = pod["metadata"]["name"]
        await self.store.patch(PODS, "default", name, MergePatch(change), subresource=subresource)


@pytest.mark.parametrize("seed", range(100))
def test_no_gang_is_let_through_without_room_and_every_one_has_its_turn(seed: int) -> None:
    async def story() -> None:
        cluster = Cluster(seed)
        await cluster.begin()
        events = EventRecorder(cluster.store, lambda: NOW)
        keeper = GateController(cluster.store, ClusterCapacity, events=events, chance=cluster.random.random)
        keeper.notify()
        async with asyncio.timeout(LONGEST), asyncio.TaskGroup() as group:
            work = (keeper.run(), events.run(), cluster.schedule())
            tasks = [group.create_task(each) for each in work]
            ending = group.create_task(cluster.end())
            for number in range(GANGS):
                await cluster.submit(f"g{number}")
            cluster.all_there = True
            await ending
            for task in tasks:
                task.cancel()

    run(story())
