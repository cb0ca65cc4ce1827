"""Gangs at a store: what is written of them, and what becomes of one whose scheduler ended half-way."""

import asyncio
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.scheduling.pod_info import GANG, GANG_MIN
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import NODES, PODS, DeleteOptions, Object, Store
from tests.controller.simulation import virtual_time
from tests.node.clusters import NOW, quiet, running, until
from tests.node.scheduling import node_json, pod_json
from tests.node.test_scheduler import (
    Nodes,
    events_about,
    go_through_trouble,
    is_bound,
    is_told,
    pod_of,
    scheduled,
    scheduling,
    with_nodes,
)
from tests.store.builders import uids


def gang_pod(name: str, gang: str, need: int | str, cpu: Any = 1, **parts: Any) -> Object:
    pod = pod_json(name, requests={"cpu": cpu}, **parts)
    pod["metadata"]["annotations"] = {GANG: gang, GANG_MIN: str(need)}
    return pod


async def come(store: Store, gang: str, count: int, cpu: Any = 1) -> None:
    for number in range(count):
        await store.create(PODS, gang_pod(f"{gang}{number}", gang, count, cpu))


async def are_told(store: Store, names: list[str]) -> bool:
    return all([await is_told(store, "Unschedulable", name) for name in names])


async def bound(store: Store) -> list[str]:
    return [pod["metadata"]["name"] for pod in (await store.list(PODS)).items if pod["spec"].get("nodeName")]


async def are_bound(store: Store, names: list[str]) -> bool:
    return all([await is_bound(store, name) for name in names])


async def test_a_gang_that_does_not_fit_waits_whole_and_is_told_why_until_room_comes() -> None:
    store = await with_nodes(node_json("n1", cpu=3))
    await store.create(PODS, pod_json("other", requests={"cpu": 1}))
    pods = ["g0", "g1", "g2"]
    words = "gang of 3: 2 fit now; 0/1 nodes are available: 1 Insufficient cpu."

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store, "other"))
        await come(store, "g", 3)
        await until(lambda: are_told(store, pods))
        await quiet(store)
        told, waiting = scheduled(await pod_of(store, "g2")), await bound(store)
        await store.delete(PODS, "default", "other", DeleteOptions(grace=0))
        await until(lambda: are_bound(store, pods))

    assert (told["reason"], told["message"], waiting) == ("Unschedulable", words, ["other"])
    assert ("Warning", "FailedScheduling", words, "default-scheduler") in await events_about(store, "g2")


async def test_a_gang_whose_pods_are_not_all_there_waits_for_them() -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, gang_pod("g0", "g", 2))

    async with running(*scheduling(store)):
        await quiet(store)
        alone = await bound(store)
        await store.create(PODS, gang_pod("g1", "g", 2))
        await until(lambda: are_bound(store, ["g0", "g1"]))

    assert alone == []


async def test_a_mark_that_makes_no_sense_is_told() -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, gang_pod("p", "g", "many"))

    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "Unschedulable"))

    assert GANG_MIN in scheduled(await pod_of(store))["message"]


async def test_pods_that_come_to_a_gang_that_ran_before_are_placed_alone() -> None:
    store = await with_nodes(node_json("n1"))
    await come(store, "g", 2)

    async with running(*scheduling(store)):
        await until(lambda: are_bound(store, ["g0", "g1"]))
        first = await pod_of(store, "g0")
        await store.update_status(PODS, {**first, "status": {"phase": "Succeeded"}})
        await store.delete(PODS, "default", "g1", DeleteOptions(grace=0))
        await store.create(PODS, gang_pod("g1", "g", 2))
        await until(lambda: is_bound(store, "g1"))


class FewWrites(MemoryStore):
    """Takes so many bindings, and then no more: as if the launcher had ended there."""

    left = 2

    async def patch(self, *args: Any, **more: Any) -> Object:
        if more.get("subresource") is None:
            if not self.left:
                raise Unavailable("no more")
            self.left -= 1
        return await super().patch(*args, **more)


def test_a_gang_whose_scheduler_ended_half_way_is_completed_before_anybody_else() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        store = FewWrites(lambda: NOW, uids())
        await store.create(NODES, node_json("n1", cpu=4))
        await come(store, "g", 4)
        async with running(*scheduling(store)):
            await asyncio.sleep(1)
        half = await bound(store)
        store.left = 1000
        for name in ("a", "b"):
            await store.create(PODS, pod_json(name, requests={"cpu": 1}, priority=1000))
        async with running(*scheduling(store)):
            await asyncio.sleep(1)
        return half, await bound(store)

    half, whole = virtual_time.run(scene())

    assert len(half) == 2
    assert sorted(whole) == ["g0", "g1", "g2", "g3"]


def test_a_gang_one_of_whose_bindings_failed_keeps_its_room() -> None:
    class OneFails(MemoryStore):
        failed = False

        async def patch(self, kind: Any, namespace: str, name: str, *args: Any, **more: Any) -> Object:
            if name == "g1" and not self.failed:
                self.failed = True
                await self.create(PODS, pod_json("other", requests={"cpu": 1}))
                raise Unavailable("just once")
            return await super().patch(kind, namespace, name, *args, **more)

    async def scene() -> list[str]:
        store = OneFails(asyncio.get_running_loop().time, uids())
        await store.create(NODES, node_json("n1", cpu=3))
        await come(store, "g", 3)
        async with running(*scheduling(store, asyncio.get_running_loop().time)):
            await asyncio.sleep(30)
        return await bound(store)

    assert sorted(virtual_time.run(scene())) == ["g0", "g1", "g2"]


class Site(Nodes):
    """Two nodes for three pods each; gangs come, and when all of one are bound, it ends some time later."""

    async def come_and_go(self) -> None:
        for name in ("n1", "n2"):
            await self.store.create(NODES, node_json(name, cpu=3))
        for number in range(15):
            await come(self.store, f"g{number}x", self.random.randint(1, 6))
            await asyncio.sleep(self.random.expovariate(0.3))
            await self.end(0.4)

    async def end(self, share: float) -> None:
        for pods in (await self.gangs()).values():
            if all("nodeName" in pod["spec"] for pod in pods) and self.random.random() < share:
                for pod in pods:
                    await self.store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=0))

    async def gangs(self) -> dict[str, list[Object]]:
        """The pods that are there, by gang."""
        found: dict[str, list[Object]] = {}
        for pod in (await self.store.list(PODS)).items:
            found.setdefault(pod["metadata"]["annotations"][GANG], []).append(pod)
        return found

    async def halves(self) -> list[str]:
        """Gangs of which some have their nodes and some do not."""
        return [
            name
            for name, pods in (await self.gangs()).items()
            if len({"nodeName" in pod["spec"] for pod in pods}) > 1
        ]


@pytest.mark.parametrize("seed", range(12))
def test_through_a_bad_connection_every_gang_comes_whole_and_no_node_has_too_many(seed: int) -> None:
    async def scene() -> tuple[list[str], list[str], dict[str, list[Object]]]:
        site = Site(seed)
        await go_through_trouble(site)
        halves: list[str] = []
        async with running(*scheduling(site.store, site.store.clock)):
            for _ in range(40):
                await asyncio.sleep(1)
                halves += await site.halves()
                await site.end(1.0)
        return site.wrong, halves, await site.gangs()

    assert virtual_time.run(scene()) == ([], [], {})
