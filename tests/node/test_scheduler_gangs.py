"""Gang scheduling with a store, including restarts between two bindings."""

import asyncio
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.core.names import GANG_ANNOTATION, GANG_MIN_ANNOTATION
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import NODES, PODS, DeleteOptions, Object, Store
from tests.controller.simulation import virtual_time
from tests.eventually import eventually
from tests.node.clusters import NOW, quiet, running
from tests.node.test_scheduler import (
    Nodes,
    events_about,
    has_condition,
    is_bound,
    pod_of,
    run_faulty_schedulers,
    scheduled,
    scheduling,
    with_nodes,
)
from tests.scheduling.builders import node_json, pod_json
from tests.store.builders import uids


def gang_pod(name: str, gang: str, min_members: int | str, cpu: Any = 1, **parts: Any) -> Object:
    pod = pod_json(name, requests={"cpu": cpu}, **parts)
    pod["metadata"]["annotations"] = {GANG_ANNOTATION: gang, GANG_MIN_ANNOTATION: str(min_members)}
    return pod


async def submit(store: Store, gang: str, count: int, cpu: Any = 1) -> None:
    for number in range(count):
        await store.create(PODS, gang_pod(f"{gang}{number}", gang, count, cpu))


async def have_conditions(store: Store, names: list[str]) -> bool:
    return all([await has_condition(store, "Unschedulable", name) for name in names])


async def bound(store: Store) -> list[str]:
    return [pod["metadata"]["name"] for pod in (await store.list(PODS)).items if pod["spec"].get("nodeName")]


async def are_bound(store: Store, names: list[str]) -> bool:
    return all([await is_bound(store, name) for name in names])


async def test_a_gang_that_does_not_fit_is_pending_with_a_reason_until_it_fits() -> None:
    store = await with_nodes(node_json("n1", cpu=3))
    await store.create(PODS, pod_json("other", requests={"cpu": 1}))
    pods = ["g0", "g1", "g2"]
    words = "Gang of 3: 2 of 3 pods fit; 0/1 nodes are available: 1 Insufficient cpu."

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store, "other"))
        await submit(store, "g", 3)
        await eventually(lambda: have_conditions(store, pods))
        await quiet(store)
        condition, waiting = scheduled(await pod_of(store, "g2")), await bound(store)
        await store.delete(PODS, "default", "other", DeleteOptions(grace=0))
        await eventually(lambda: are_bound(store, pods))

    assert (condition["reason"], condition["message"], waiting) == ("Unschedulable", words, ["other"])
    assert ("Warning", "FailedScheduling", words, "default-scheduler") in await events_about(store, "g2")


async def test_an_incomplete_gang_waits_for_its_pods() -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, gang_pod("g0", "g", 2))

    async with running(*scheduling(store)):
        await quiet(store)
        alone = await bound(store)
        await store.create(PODS, gang_pod("g1", "g", 2))
        await eventually(lambda: are_bound(store, ["g0", "g1"]))

    assert alone == []


async def test_an_invalid_gang_annotation_is_reported() -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, gang_pod("p", "g", "many"))

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable"))

    assert GANG_MIN_ANNOTATION in scheduled(await pod_of(store))["message"]


async def test_pods_added_to_a_gang_that_ran_before_are_scheduled_alone() -> None:
    store = await with_nodes(node_json("n1"))
    await submit(store, "g", 2)

    async with running(*scheduling(store)):
        await eventually(lambda: are_bound(store, ["g0", "g1"]))
        first = await pod_of(store, "g0")
        await store.update_status(PODS, {**first, "status": {"phase": "Succeeded"}})
        await store.delete(PODS, "default", "g1", DeleteOptions(grace=0))
        await store.create(PODS, gang_pod("g1", "g", 2))
        await eventually(lambda: is_bound(store, "g1"))


class FewWrites(MemoryStore):
    """Accepts a number of bindings and then none, as if the launcher had stopped."""

    left = 2

    async def patch(self, *args: Any, **more: Any) -> Object:
        if more.get("subresource") is None:
            if not self.left:
                raise Unavailable("no more")
            self.left -= 1
        return await super().patch(*args, **more)


def test_a_partly_bound_gang_is_completed_first_after_a_restart() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        store = FewWrites(lambda: NOW, uids())
        await store.create(NODES, node_json("n1", cpu=4))
        await submit(store, "g", 4)
        async with running(*scheduling(store)):
            await asyncio.sleep(1)
        half = await bound(store)
        store.left = 1000
        for name in ("a", "b"):
            await store.create(PODS, pod_json(name, requests={"cpu": 1}, priority=1000))
        async with running(*scheduling(store)):
            await asyncio.sleep(1)
        return half, await bound(store)

    half, whole = virtual_time.run(scenario())

    assert len(half) == 2
    assert sorted(whole) == ["g0", "g1", "g2", "g3"]


def test_a_gang_keeps_its_capacity_when_one_binding_fails() -> None:
    class OneFails(MemoryStore):
        failed = False

        async def patch(self, kind: Any, namespace: str, name: str, *args: Any, **more: Any) -> Object:
            if name == "g1" and not self.failed:
                self.failed = True
                await self.create(PODS, pod_json("other", requests={"cpu": 1}))
                raise Unavailable("just once")
            return await super().patch(kind, namespace, name, *args, **more)

    async def scenario() -> list[str]:
        store = OneFails(asyncio.get_running_loop().time, uids())
        await store.create(NODES, node_json("n1", cpu=3))
        await submit(store, "g", 3)
        async with running(*scheduling(store, asyncio.get_running_loop().time)):
            await asyncio.sleep(30)
        return await bound(store)

    assert sorted(virtual_time.run(scenario())) == ["g0", "g1", "g2"]


class GangNodes(Nodes):
    """Two nodes for three pods each; gangs are created, and a completely bound gang terminates some time later."""

    async def create_and_finish_pods(self) -> None:
        for name in ("n1", "n2"):
            await self.store.create(NODES, node_json(name, cpu=3))
        for number in range(15):
            await submit(self.store, f"g{number}x", self.random.randint(1, 6))
            await asyncio.sleep(self.random.expovariate(0.3))
            await self.end(0.4)

    async def end(self, share: float) -> None:
        for pods in (await self.gangs()).values():
            if all("nodeName" in pod["spec"] for pod in pods) and self.random.random() < share:
                for pod in pods:
                    await self.store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=0))

    async def gangs(self) -> dict[str, list[Object]]:
        """Returns the existing pods by gang."""
        found: dict[str, list[Object]] = {}
        for pod in (await self.store.list(PODS)).items:
            found.setdefault(pod["metadata"]["annotations"][GANG_ANNOTATION], []).append(pod)
        return found

    async def partly_bound_gangs(self) -> list[str]:
        """Returns the gangs of which only some pods have nodes."""
        return [
            name
            for name, pods in (await self.gangs()).items()
            if len({"nodeName" in pod["spec"] for pod in pods}) > 1
        ]


@pytest.mark.parametrize("seed", range(12))
def test_over_a_faulty_connection_every_gang_is_scheduled_whole(seed: int) -> None:
    async def scenario() -> tuple[list[str], list[str], dict[str, list[Object]]]:
        cluster = GangNodes(seed)
        await run_faulty_schedulers(cluster)
        partly_bound_gangs: list[str] = []
        async with running(*scheduling(cluster.store, cluster.store.clock)):
            for _ in range(40):
                await asyncio.sleep(1)
                partly_bound_gangs += await cluster.partly_bound_gangs()
                await cluster.end(1.0)
        return cluster.wrong, partly_bound_gangs, await cluster.gangs()

    assert virtual_time.run(scenario()) == ([], [], {})
