"""Random gangs with scheduling gates: none is admitted without capacity, and all are admitted eventually."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from random import Random
from typing import Any, Literal

import pytest

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.gate_controller import GateController
from launcher.controller.gang.gated_gangs import is_gated, pod_overlays
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import NODES, PODS, Change, MergePatch, Object
from tests.builders import a_role
from tests.controller.gang.builders import NOW, a_gang, a_pod_requesting, create_framework, pods_of
from tests.controller.simulation.virtual_time import run
from tests.store.builders import uids

#: Virtual seconds within which every gang completes.
TIMEOUT_SECONDS = 10_000.0
GANG_COUNT = 8


class DelayedWatchStore(MemoryStore):
    """A store that delays the events of each watch by a random time."""

    def __init__(self, random: Random) -> None:
        super().__init__(lambda: NOW, uids())
        self._random = random

    async def watch(self, *args: Any, **options: Any) -> AsyncGenerator[Change]:
        async for change in super().watch(*args, **options):
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.2, 2.0)))
            yield change


class RandomCluster:
    """Nodes with some CPUs, a scheduler that binds pods in random order, and pods that run for a random time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = DelayedWatchStore(self.random)
        self.all_submitted = False
        self.cpus = {f"n{number}": self.random.randint(1, 4) for number in range(self.random.randint(2, 4))}

    async def create_nodes(self) -> None:
        for name, cpu in self.cpus.items():
            allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            await self.store.create(NODES, {**node, "status": {"allocatable": allocatable}})

    async def submit(self, name: str) -> None:
        tasks = self.random.randint(1, sum(self.cpus.values()))
        framework = await create_framework(
            self.store, a_gang(a_role(tasks=tasks, pod=a_pod_requesting("1")), name=name)
        )
        for pod in pods_of(framework, pod_overlays(GangRequest(framework, 0))):
            await self.store.create(PODS, pod)
            await asyncio.sleep(self.random.choice((0.0, 0.1)))

    async def schedule(self) -> None:
        """Binds one pod after the other; every admitted pod must fit on a node."""
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 0.5))
            admitted = [
                pod
                for pod in await self._running_pods()
                if not is_gated(pod) and not pod["spec"].get("nodeName")
            ]
            if not admitted:
                continue
            free = [name for name, cpus in (await self._free_cpus()).items() if cpus]
            assert free, f"{len(admitted)} pods were admitted without free capacity"
            patch = {"spec": {"nodeName": self.random.choice(free)}}
            await self._patch(self.random.choice(admitted), patch)

    async def complete_pods(self) -> None:
        """Completes one scheduled pod after the other, until all gangs were submitted and have completed."""
        while not self.all_submitted or await self._running_pods():
            await asyncio.sleep(self.random.uniform(0.0, 4.0))
            scheduled = [pod for pod in await self._running_pods() if pod["spec"].get("nodeName")]
            if scheduled:
                await self._patch(self.random.choice(scheduled), {"status": {"phase": "Succeeded"}}, "status")

    async def _running_pods(self) -> list[Object]:
        """Pods that have not terminated."""
        pods = (await self.store.list(PODS)).items
        return [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]

    async def _free_cpus(self) -> Counter[str]:
        return Counter(self.cpus) - Counter(
            pod["spec"].get("nodeName", "") for pod in await self._running_pods()
        )

    async def _patch(self, pod: Object, patch: Any, subresource: Literal["status"] | None = None) -> None:
        name = pod["metadata"]["name"]
        await self.store.patch(PODS, "default", name, MergePatch(patch), subresource=subresource)


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 100))]
)
def test_no_gang_is_admitted_without_capacity_and_every_gang_is_admitted_eventually(seed: int) -> None:
    async def scenario() -> None:
        cluster = RandomCluster(seed)
        await cluster.create_nodes()
        events = EventRecorder(cluster.store, lambda: NOW)
        controller = GateController(cluster.store, events=events, jitter=cluster.random.random)
        controller.notify()
        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
            components = (controller.run(), events.run(), cluster.schedule())
            tasks = [group.create_task(component) for component in components]
            completion = group.create_task(cluster.complete_pods())
            for number in range(GANG_COUNT):
                await cluster.submit(f"g{number}")
            cluster.all_submitted = True
            await completion
            for task in tasks:
                task.cancel()

    run(scenario())
