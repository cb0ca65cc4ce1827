"""The scheduler at a store: pods get nodes, and those that must wait are told why."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from launcher.core.errors import NotFound, Unavailable
from launcher.node.scheduler import Scheduler
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import (
    EVENTS,
    NODES,
    PODS,
    DeleteOptions,
    MergePatch,
    Object,
    Page,
    ResourceKind,
    Store,
)
from tests.controller.simulation import virtual_time
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.node.clusters import NOW, a_store, quiet, running, until
from tests.node.scheduling import node_json, pod_json
from tests.store.builders import uids


def scheduling(store: Store, clock: Callable[[], float] = lambda: NOW) -> tuple[EventRecorder, Scheduler]:
    events = EventRecorder(store, clock, "default-scheduler")
    return events, Scheduler(store, events=events, clock=clock)


async def with_nodes(*nodes: Object) -> MemoryStore:
    store = a_store()
    for node in nodes:
        await store.create(NODES, node)
    return store


async def pod_of(store: Store, name: str = "p") -> Object:
    return await store.get(PODS, "default", name)


def scheduled(pod: Object) -> Object:
    """The condition that tells of its way to a node."""
    (condition,) = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
    return dict(condition)


async def is_bound(store: Store, name: str = "p") -> bool:
    return "nodeName" in (await pod_of(store, name))["spec"]


async def is_told(store: Store, reason: str, name: str = "p") -> bool:
    conditions = (await pod_of(store, name))["status"].get("conditions", ())
    return any(one.get("reason") == reason for one in conditions)


async def events_about(store: Store, name: str = "p") -> list[tuple[str, str, str, str]]:
    return [
        (event["type"], event["reason"], event["message"], event["source"]["component"])
        for event in (await store.list(EVENTS)).items
        if event["involvedObject"]["name"] == name
    ]


async def test_a_pod_is_bound_in_one_write_that_also_tells_so() -> None:
    store = await with_nodes(node_json("n1"))
    created = await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store))
        pod = await pod_of(store)
        await until(lambda: _any(events_about(store)))

    assert pod["spec"]["nodeName"] == "n1"
    assert scheduled(pod) == {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }
    assert int(pod["metadata"]["resourceVersion"]) == int(created["metadata"]["resourceVersion"]) + 1
    assert await events_about(store) == [
        ("Normal", "Scheduled", "Successfully assigned default/p to n1", "default-scheduler")
    ]


async def _any(answer: Any) -> bool:
    return bool(await answer)


async def test_a_pod_that_fits_nowhere_is_told_why_in_a_condition_and_an_event() -> None:
    store = await with_nodes(node_json("n1"), node_json("n2", labels={"zone": "a"}), node_json("n3"))
    await store.create(PODS, pod_json(requests={"cpu": 9}, nodeSelector={"zone": "a"}))
    message = (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
    )

    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "Unschedulable"))
        await until(lambda: _any(events_about(store)))
        pod = await pod_of(store)

    assert pod["status"]["phase"] == "Pending"
    assert scheduled(pod) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": "2023-11-14T22:13:20Z",
    }
    assert await events_about(store) == [("Warning", "FailedScheduling", message, "default-scheduler")]


async def test_a_pod_that_waits_is_bound_when_a_node_comes_or_another_pod_ends() -> None:
    store = await with_nodes(node_json("n1", cpu=1))
    await store.create(PODS, pod_json("first", requests={"cpu": 1}))

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store, "first"))
        await store.create(PODS, pod_json("second", requests={"cpu": 1}))
        await store.create(PODS, pod_json("third", requests={"cpu": 1}))
        await until(lambda: is_told(store, "Unschedulable", "third"))

        first = await pod_of(store, "first")
        await store.update_status(PODS, {**first, "status": {"phase": "Succeeded"}})
        await until(lambda: is_bound(store, "second"))
        await store.create(NODES, node_json("n2"))
        await until(lambda: is_bound(store, "third"))

    assert (await pod_of(store, "second"))["spec"]["nodeName"] == "n1"
    assert (await pod_of(store, "third"))["spec"]["nodeName"] == "n2"
    assert scheduled(await pod_of(store, "third"))["status"] == "True"


async def test_a_pod_with_gates_waits_until_they_are_lifted() -> None:
    store = await with_nodes(node_json())
    await store.create(PODS, pod_json(schedulingGates=[{"name": "later"}]))

    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "SchedulingGated"))
        told = scheduled(await pod_of(store))
        await quiet(store)
        assert not await is_bound(store)
        await store.patch(PODS, "default", "p", MergePatch({"spec": {"schedulingGates": None}}))
        await until(lambda: is_bound(store))
        await until(lambda: _any(events_about(store)))

    assert told["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    assert [event[1] for event in await events_about(store)] == ["Scheduled"]


@pytest.mark.parametrize("scheduler", ["volcano", "hivedscheduler"])
async def test_a_pod_of_a_scheduler_that_does_not_exist_here_is_placed_with_a_warning(scheduler: str) -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, pod_json(schedulerName=scheduler))

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store))
        await until(lambda: _has_event(store, "Scheduled"))

    (warning,) = [event for event in await events_about(store) if event[0] == "Warning"]
    assert warning[1] == "SchedulerNotFound"
    assert f'spec.schedulerName "{scheduler}"' in warning[2]
    assert "default-scheduler" in warning[2]


async def test_a_pod_of_a_scheduler_that_does_not_exist_here_has_a_reason_when_it_fits_nowhere() -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, pod_json(schedulerName="volcano", requests={"cpu": 9}))

    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "Unschedulable"))
        await until(lambda: _has_event(store, "FailedScheduling"))

    assert scheduled(await pod_of(store))["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert [event[1] for event in await events_about(store)] == ["SchedulerNotFound", "FailedScheduling"]


async def _has_event(store: Store, reason: str) -> bool:
    return any(event[1] == reason for event in await events_about(store))


async def test_a_pod_that_has_a_node_is_left_alone() -> None:
    store = await with_nodes(node_json())
    created = await store.create(PODS, pod_json("other", nodeName="elsewhere"))
    await store.create(PODS, pod_json(schedulerName="default-scheduler"))

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store))
        await quiet(store)

    assert await pod_of(store, "other") == created


async def test_a_pod_that_is_being_deleted_is_not_bound() -> None:
    store = await with_nodes(node_json())
    held = pod_json("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await store.create(PODS, held)
    await store.delete(PODS, "default", "held", DeleteOptions())
    await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store))
        await quiet(store)

    assert not await is_bound(store, "held")


async def test_a_pod_that_cannot_be_read_is_told_so_and_hinders_nobody() -> None:
    store = await with_nodes(node_json())
    await store.create(PODS, pod_json("odd", requests={"cpu": "much"}))
    await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store))
        await until(lambda: is_told(store, "Unschedulable", "odd"))

    assert (
        "spec.containers.resources.requests.cpu: 'much'" in scheduled(await pod_of(store, "odd"))["message"]
    )


async def test_the_classes_that_every_cluster_has_go_first() -> None:
    store = await with_nodes()
    await store.create(PODS, pod_json("usual", requests={"cpu": 1}))
    await store.create(PODS, pod_json("high", requests={"cpu": 1}, priority=1000))
    await store.create(
        PODS, pod_json("critical", requests={"cpu": 1}, priorityClassName="system-node-critical")
    )

    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "Unschedulable", "critical"))
        await store.create(NODES, node_json(cpu=1))
        await until(lambda: is_bound(store, "critical"))
        await store.create(NODES, node_json("n2", cpu=1))
        await until(lambda: is_bound(store, "high"))

    assert not await is_bound(store, "usual")


async def test_what_was_told_is_not_written_again_after_a_restart() -> None:
    store = await with_nodes()
    await store.create(PODS, pod_json())
    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "Unschedulable"))
        await quiet(store)
    before, reached = await pod_of(store), store.version

    async with running(*scheduling(store)):
        await quiet(store)

    assert store.version == reached
    assert scheduled(before)["message"] == "no nodes available to schedule pods"


async def test_after_a_restart_pods_on_nodes_are_counted_before_anybody_is_bound() -> None:
    store = await with_nodes(node_json("n1", cpu=1), node_json("n2", cpu=1))
    await store.create(PODS, pod_json("there", requests={"cpu": 1}, nodeName="n1"))
    await store.create(PODS, pod_json(requests={"cpu": 1}))

    async with running(*scheduling(store)):
        await until(lambda: is_bound(store))

    assert (await pod_of(store))["spec"]["nodeName"] == "n2"


def test_those_who_wait_are_told_after_a_while_what_has_changed_about_the_reason() -> None:
    async def scene() -> tuple[str, str]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        await store.create(NODES, node_json("n1", cpu=1))
        await store.create(PODS, pod_json(requests={"cpu": 2}))
        async with running(*scheduling(store, clock)):
            await asyncio.sleep(1)
            first = scheduled(await pod_of(store))["message"]
            await store.create(NODES, node_json("n2", cpu=1))
            await asyncio.sleep(62)
            return first, scheduled(await pod_of(store))["message"]

    assert virtual_time.run(scene()) == (
        "0/1 nodes are available: 1 Insufficient cpu.",
        "0/2 nodes are available: 2 Insufficient cpu.",
    )


def test_room_is_kept_once_a_pod_has_waited_a_minute() -> None:
    async def scene() -> tuple[bool, bool]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        await store.create(NODES, node_json(cpu=2))
        await store.create(PODS, pod_json("old", requests={"cpu": 1}))
        async with running(*scheduling(store, clock)):
            await until(lambda: is_bound(store, "old"))
            await store.create(PODS, pod_json("big", requests={"cpu": 2}))
            await asyncio.sleep(62)
            await store.create(PODS, pod_json("small", requests={"cpu": 1}))
            await asyncio.sleep(5)
            passed_over = await is_bound(store, "small")
            await store.delete(PODS, "default", "old", DeleteOptions(grace=0))
            await asyncio.sleep(5)
            return passed_over, await is_bound(store, "big")

    assert virtual_time.run(scene()) == (False, True)


async def test_a_pod_that_is_gone_before_it_was_bound_is_forgotten() -> None:
    store = await with_nodes()
    await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await until(lambda: is_told(store, "Unschedulable"))
        await store.delete(PODS, "default", "p")
        await store.create(NODES, node_json(cpu=1))
        await store.create(PODS, pod_json("next", requests={"cpu": 1}))
        await until(lambda: is_bound(store, "next"))

    with pytest.raises(NotFound):
        await pod_of(store)


def test_a_pod_has_waited_since_its_gates_were_lifted() -> None:
    async def scene() -> tuple[bool, bool]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        async with running(*scheduling(store, clock)):
            await store.create(PODS, pod_json("gated", requests={"cpu": 1}, schedulingGates=[{"name": "x"}]))
            await asyncio.sleep(5)
            await store.create(PODS, pod_json("free", requests={"cpu": 1}))
            await asyncio.sleep(5)
            await store.patch(PODS, "default", "gated", MergePatch({"spec": {"schedulingGates": None}}))
            await asyncio.sleep(5)
            await store.create(NODES, node_json(cpu=1))
            await asyncio.sleep(5)
            return await is_bound(store, "free"), await is_bound(store, "gated")

    assert virtual_time.run(scene()) == (True, False)


class AwayStore(MemoryStore):
    """Takes no patches as long as it is away."""

    away = True
    tries = 0

    async def patch(self, *args: Any, **more: Any) -> Object:
        if self.away:
            self.tries += 1
            assert self.tries < 1000, "it is asked without a pause"
            raise Unavailable("away")
        return await super().patch(*args, **more)


def test_a_store_that_is_away_is_asked_with_growing_pauses_and_served_when_it_is_back() -> None:
    async def scene() -> tuple[int, bool]:
        clock = asyncio.get_running_loop().time
        store = AwayStore(clock, uids())
        await store.create(NODES, node_json())
        await store.create(PODS, pod_json())
        async with running(*scheduling(store, clock)):
            await asyncio.sleep(100)
            store.away = False
            await asyncio.sleep(20)
            return store.tries, await is_bound(store)

    tries, bound = virtual_time.run(scene())

    assert bound
    assert 5 < tries < 30


class SlowStore(MemoryStore):
    """Takes its time to list nodes."""

    async def list(self, kind: ResourceKind, *args: Any, **more: Any) -> Page:
        if kind is NODES:
            await asyncio.sleep(5)
        return await super().list(kind, *args, **more)


def test_nobody_is_told_of_too_few_nodes_before_all_are_known() -> None:
    async def scene() -> list[str]:
        clock = asyncio.get_running_loop().time
        store = SlowStore(clock, uids())
        await store.create(NODES, node_json())
        await store.create(PODS, pod_json())
        async with running(*scheduling(store, clock)):
            await asyncio.sleep(20)
            return [event[1] for event in await events_about(store)]

    assert virtual_time.run(scene()) == ["Scheduled"]


BAD = Faults(
    lost_answers=0.1,
    refusals=0.1,
    late_answers=0.1,
    late_events=0.1,
    doubled_events=0.05,
    cut_streams=0.05,
    expired=0.2,
    slow=0.1,
)


class Nodes:
    """Two nodes for three pods each; pods come, and those that were bound end some time later."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = SimulatedStore(self.random)
        self.store.audit = self._audit
        self.wrong: list[str] = []
        self._placed: dict[str, str] = {}

    def _audit(self, resource: str, gone: bool, pod: Object) -> None:
        """See every write as it takes effect."""
        if resource != PODS.resource:
            return
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if gone:
            self._placed.pop(uid, None)
        elif node is not None:
            if self._placed.setdefault(uid, node) != node:
                self.wrong.append(f"{pod['metadata']['name']} has moved")
            if list(self._placed.values()).count(node) > 3:
                self.wrong.append(f"{node} is overfull")

    async def come_and_go(self) -> None:
        for name in ("n1", "n2"):
            await self.store.create(NODES, node_json(name, cpu=3))
        for number in range(40):
            await self.store.create(PODS, pod_json(f"p{number}", requests={"cpu": 1}))
            await asyncio.sleep(self.random.expovariate(1))
            await self.end(0.3)

    async def end(self, share: float) -> None:
        """So many of those that have a node end."""
        for pod in (await self.store.list(PODS)).items:
            if "nodeName" in pod["spec"] and self.random.random() < share:
                await self.store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=0))


async def go_through_trouble(nodes: Nodes) -> None:
    """Pods come and go, with one scheduler after another on a bad connection; in the end none is at work."""
    faults = replace(BAD, old_pages={})
    work = asyncio.create_task(nodes.come_and_go())
    while not work.done():  # killed and started again, time after time
        bad = FaultyStore(nodes.store, faults, nodes.random)
        async with running(*scheduling(bad, nodes.store.clock)):
            await asyncio.sleep(nodes.random.uniform(0.1, 20))
        await asyncio.sleep(20)  # what was under way comes to its end before the next begins
    await work
    faults.over = True


@pytest.mark.parametrize("seed", range(12))
def test_through_a_bad_connection_everybody_gets_one_node_and_no_node_too_many(seed: int) -> None:
    async def scene() -> tuple[list[str], list[Object]]:
        nodes = Nodes(seed)
        await go_through_trouble(nodes)
        async with running(*scheduling(nodes.store, nodes.store.clock)):
            for _ in range(40):
                await asyncio.sleep(1)
                await nodes.end(1.0)
        return nodes.wrong, list((await nodes.store.list(PODS)).items)

    assert virtual_time.run(scene()) == ([], [])
