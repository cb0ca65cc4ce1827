"""The local scheduler with a store: bindings, conditions and events."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from launcher.core.errors import NotFound, Unavailable
from launcher.core.pods.start_failure import EXCEEDS_CAPACITY
from launcher.node.scheduler import Scheduler
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import SharedInformers
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
from tests.eventually import eventually
from tests.node.clusters import NOW, a_store, quiet, running
from tests.scheduling.builders import node_json, pod_json
from tests.store.builders import uids


def scheduling(
    store: Store, clock: Callable[[], float] = lambda: NOW
) -> tuple[EventRecorder, Scheduler, SharedInformers]:
    events, informers = EventRecorder(store, clock, "default-scheduler"), SharedInformers(store)
    return events, Scheduler(store, informers, events=events, clock=clock), informers


async def with_nodes(*nodes: Object) -> MemoryStore:
    store = a_store()
    for node in nodes:
        await store.create(NODES, node)
    return store


async def pod_of(store: Store, name: str = "p") -> Object:
    return await store.get(PODS, "default", name)


def scheduled(pod: Object) -> Object:
    """Returns the pod's PodScheduled condition."""
    (condition,) = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
    return dict(condition)


async def is_bound(store: Store, name: str = "p") -> bool:
    return "nodeName" in (await pod_of(store, name))["spec"]


async def has_condition(store: Store, reason: str, name: str = "p") -> bool:
    conditions = (await pod_of(store, name))["status"].get("conditions", ())
    return any(one.get("reason") == reason for one in conditions)


async def events_about(store: Store, name: str = "p") -> list[tuple[str, str, str, str]]:
    return [
        (event["type"], event["reason"], event["message"], event["source"]["component"])
        for event in (await store.list(EVENTS)).items
        if event["involvedObject"]["name"] == name
    ]


async def test_a_pod_is_bound_and_its_condition_set_in_one_write() -> None:
    store = await with_nodes(node_json("n1"))
    created = await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store))
        pod = await pod_of(store)
        await eventually(lambda: _any(events_about(store)))

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


async def test_an_unschedulable_pod_gets_a_condition_and_an_event() -> None:
    store = await with_nodes(node_json("n1"), node_json("n2", labels={"zone": "a"}), node_json("n3"))
    await store.create(PODS, pod_json(requests={"cpu": 9}, nodeSelector={"zone": "a"}))
    message = (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
    )

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable"))
        await eventually(lambda: _any(events_about(store)))
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


async def test_a_request_that_exceeds_every_node_is_a_condition_until_a_node_has_enough() -> None:
    store = await with_nodes(node_json("n1", cpu=1), node_json("n2", cpu=2))
    await store.create(PODS, pod_json("large", requests={"cpu": 4}))
    await store.create(PODS, pod_json("full", requests={"cpu": 2}))
    await store.create(PODS, pod_json("waits", requests={"cpu": 2}))

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable", "large"))
        pod = await pod_of(store, "large")
        await eventually(lambda: has_condition(store, "Unschedulable", "waits"))
        other = await pod_of(store, "waits")
        await store.create(NODES, node_json("n3", cpu=8))
        await eventually(lambda: is_bound(store, "large"))

    assert EXCEEDS_CAPACITY in {condition["type"] for condition in pod["status"]["conditions"]}
    assert EXCEEDS_CAPACITY not in {condition["type"] for condition in other["status"]["conditions"]}


async def test_a_pending_pod_is_bound_when_a_node_is_added_or_a_pod_terminates() -> None:
    store = await with_nodes(node_json("n1", cpu=1))
    await store.create(PODS, pod_json("first", requests={"cpu": 1}))

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store, "first"))
        await store.create(PODS, pod_json("second", requests={"cpu": 1}))
        await store.create(PODS, pod_json("third", requests={"cpu": 1}))
        await eventually(lambda: has_condition(store, "Unschedulable", "third"))

        first = await pod_of(store, "first")
        await store.update_status(PODS, {**first, "status": {"phase": "Succeeded"}})
        await eventually(lambda: is_bound(store, "second"))
        await store.create(NODES, node_json("n2"))
        await eventually(lambda: is_bound(store, "third"))

    assert (await pod_of(store, "second"))["spec"]["nodeName"] == "n1"
    assert (await pod_of(store, "third"))["spec"]["nodeName"] == "n2"
    assert scheduled(await pod_of(store, "third"))["status"] == "True"


async def test_a_pod_with_scheduling_gates_waits_until_they_are_removed() -> None:
    store = await with_nodes(node_json())
    await store.create(PODS, pod_json(schedulingGates=[{"name": "later"}]))

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "SchedulingGated"))
        condition = scheduled(await pod_of(store))
        await quiet(store)
        assert not await is_bound(store)
        await store.patch(PODS, "default", "p", MergePatch({"spec": {"schedulingGates": None}}))
        await eventually(lambda: is_bound(store))
        await eventually(lambda: _any(events_about(store)))

    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    assert [event[1] for event in await events_about(store)] == ["Scheduled"]


@pytest.mark.parametrize("scheduler", ["volcano", "hivedscheduler"])
async def test_a_pod_that_names_an_unknown_scheduler_is_scheduled_with_a_warning(scheduler: str) -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, pod_json(schedulerName=scheduler))

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store))
        await eventually(lambda: _has_event(store, "Scheduled"))

    (warning,) = [event for event in await events_about(store) if event[0] == "Warning"]
    assert warning[1] == "SchedulerNotFound"
    assert f'Scheduler "{scheduler}" (spec.schedulerName)' in warning[2]
    assert "default-scheduler" in warning[2]


async def test_an_unschedulable_pod_that_names_an_unknown_scheduler_gets_a_reason() -> None:
    store = await with_nodes(node_json("n1"))
    await store.create(PODS, pod_json(schedulerName="volcano", requests={"cpu": 9}))

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable"))
        await eventually(lambda: _has_event(store, "FailedScheduling"))

    assert scheduled(await pod_of(store))["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    reasons = [event[1] for event in await events_about(store)]
    assert sorted(reasons) == ["FailedScheduling", "SchedulerNotFound"]


async def _has_event(store: Store, reason: str) -> bool:
    return any(event[1] == reason for event in await events_about(store))


async def test_a_pod_with_a_node_is_not_changed() -> None:
    store = await with_nodes(node_json())
    created = await store.create(PODS, pod_json("other", nodeName="elsewhere"))
    await store.create(PODS, pod_json(schedulerName="default-scheduler"))

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store))
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
        await eventually(lambda: is_bound(store))
        await quiet(store)

    assert not await is_bound(store, "held")


async def test_an_invalid_pod_gets_a_condition_and_does_not_block_others() -> None:
    store = await with_nodes(node_json())
    await store.create(PODS, pod_json("odd", requests={"cpu": "much"}))
    await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store))
        await eventually(lambda: has_condition(store, "Unschedulable", "odd"))

    assert (
        "spec.containers.resources.requests.cpu: 'much'" in scheduled(await pod_of(store, "odd"))["message"]
    )


async def test_system_priority_classes_are_scheduled_first() -> None:
    store = await with_nodes()
    await store.create(PODS, pod_json("usual", requests={"cpu": 1}))
    await store.create(PODS, pod_json("high", requests={"cpu": 1}, priority=1000))
    await store.create(
        PODS, pod_json("critical", requests={"cpu": 1}, priorityClassName="system-node-critical")
    )

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable", "critical"))
        await store.create(NODES, node_json(cpu=1))
        await eventually(lambda: is_bound(store, "critical"))
        await store.create(NODES, node_json("n2", cpu=1))
        await eventually(lambda: is_bound(store, "high"))

    assert not await is_bound(store, "usual")


async def test_conditions_are_not_written_again_after_a_restart() -> None:
    store = await with_nodes()
    await store.create(PODS, pod_json())
    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable"))
        await quiet(store)
    before, reached = await pod_of(store), store.version

    async with running(*scheduling(store)):
        await quiet(store)

    assert store.version == reached
    assert scheduled(before)["message"] == "no nodes available to schedule pods"


async def test_after_a_restart_running_pods_are_counted_before_any_binding() -> None:
    store = await with_nodes(node_json("n1", cpu=1), node_json("n2", cpu=1))
    await store.create(PODS, pod_json("there", requests={"cpu": 1}, nodeName="n1"))
    await store.create(PODS, pod_json(requests={"cpu": 1}))

    async with running(*scheduling(store)):
        await eventually(lambda: is_bound(store))

    assert (await pod_of(store))["spec"]["nodeName"] == "n2"


def test_the_condition_of_pending_pods_is_updated_periodically() -> None:
    async def scenario() -> tuple[str, str]:
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

    assert virtual_time.run(scenario()) == (
        "0/1 nodes are available: 1 Insufficient cpu.",
        "0/2 nodes are available: 2 Insufficient cpu.",
    )


def test_capacity_is_reserved_once_a_pod_has_waited_a_minute() -> None:
    async def scenario() -> tuple[bool, bool]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        await store.create(NODES, node_json(cpu=2))
        await store.create(PODS, pod_json("old", requests={"cpu": 1}))
        async with running(*scheduling(store, clock)):
            await eventually(lambda: is_bound(store, "old"))
            await store.create(PODS, pod_json("big", requests={"cpu": 2}))
            await asyncio.sleep(62)
            await store.create(PODS, pod_json("small", requests={"cpu": 1}))
            await asyncio.sleep(5)
            small_is_bound = await is_bound(store, "small")
            await store.delete(PODS, "default", "old", DeleteOptions(grace=0))
            await asyncio.sleep(5)
            return small_is_bound, await is_bound(store, "big")

    assert virtual_time.run(scenario()) == (False, True)


async def test_a_pod_deleted_before_its_binding_is_forgotten() -> None:
    store = await with_nodes()
    await store.create(PODS, pod_json())

    async with running(*scheduling(store)):
        await eventually(lambda: has_condition(store, "Unschedulable"))
        await store.delete(PODS, "default", "p")
        await store.create(NODES, node_json(cpu=1))
        await store.create(PODS, pod_json("next", requests={"cpu": 1}))
        await eventually(lambda: is_bound(store, "next"))

    with pytest.raises(NotFound):
        await pod_of(store)


def test_waiting_time_starts_when_scheduling_gates_are_removed() -> None:
    async def scenario() -> tuple[bool, bool]:
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

    assert virtual_time.run(scenario()) == (True, False)


class UnavailableStore(MemoryStore):
    """Rejects patches while unavailable."""

    unavailable = True
    tries = 0

    async def patch(self, *args: Any, **more: Any) -> Object:
        if self.unavailable:
            self.tries += 1
            assert self.tries < 1000, "it is asked without a pause"
            raise Unavailable("unavailable")
        return await super().patch(*args, **more)


def test_an_unavailable_store_is_retried_with_back_off() -> None:
    async def scenario() -> tuple[int, bool]:
        clock = asyncio.get_running_loop().time
        store = UnavailableStore(clock, uids())
        await store.create(NODES, node_json())
        await store.create(PODS, pod_json())
        async with running(*scheduling(store, clock)):
            await asyncio.sleep(100)
            store.unavailable = False
            await asyncio.sleep(20)
            return store.tries, await is_bound(store)

    tries, bound = virtual_time.run(scenario())

    assert bound
    assert 5 < tries < 30


class SlowStore(MemoryStore):
    """Lists nodes slowly."""

    async def list(self, kind: ResourceKind, *args: Any, **more: Any) -> Page:
        if kind is NODES:
            await asyncio.sleep(5)
        return await super().list(kind, *args, **more)


def test_no_pod_is_reported_unschedulable_before_all_nodes_are_listed() -> None:
    async def scenario() -> list[str]:
        clock = asyncio.get_running_loop().time
        store = SlowStore(clock, uids())
        await store.create(NODES, node_json())
        await store.create(PODS, pod_json())
        async with running(*scheduling(store, clock)):
            await asyncio.sleep(20)
            return [event[1] for event in await events_about(store)]

    assert virtual_time.run(scenario()) == ["Scheduled"]


BAD = Faults(
    lost_responses=0.1,
    error_responses=0.1,
    late_responses=0.1,
    late_events=0.1,
    duplicate_events=0.05,
    closed_watches=0.05,
    expired=0.2,
    slow=0.1,
)


class Nodes:
    """Two nodes for three pods each; pods are created, and bound pods terminate some time later."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = SimulatedStore(self.random)
        self.store.audit = self._audit
        self.wrong: list[str] = []
        self._nodes: dict[str, str] = {}

    def _audit(self, resource: str, deleted: bool, pod: Object) -> None:
        """Checks every write as it takes effect."""
        if resource != PODS.resource:
            return
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if deleted:
            self._nodes.pop(uid, None)
        elif node is not None:
            if self._nodes.setdefault(uid, node) != node:
                self.wrong.append(f"{pod['metadata']['name']} has moved")
            if list(self._nodes.values()).count(node) > 3:
                self.wrong.append(f"{node} is overfull")

    async def create_and_finish_pods(self) -> None:
        for name in ("n1", "n2"):
            await self.store.create(NODES, node_json(name, cpu=3))
        for number in range(40):
            await self.store.create(PODS, pod_json(f"p{number}", requests={"cpu": 1}))
            await asyncio.sleep(self.random.expovariate(1))
            await self.end(0.3)

    async def end(self, share: float) -> None:
        """Terminates this share of the bound pods."""
        for pod in (await self.store.list(PODS)).items:
            if "nodeName" in pod["spec"] and self.random.random() < share:
                await self.store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=0))


async def run_faulty_schedulers(nodes: Nodes) -> None:
    """Creates and finishes pods while schedulers with a faulty connection are started and stopped."""
    faults = replace(BAD, old_pages={})
    work = asyncio.create_task(nodes.create_and_finish_pods())
    while not work.done():  # stopped and started repeatedly
        bad = FaultyStore(nodes.store, faults, nodes.random)
        async with running(*scheduling(bad, nodes.store.clock)):
            await asyncio.sleep(nodes.random.uniform(0.1, 20))
        await asyncio.sleep(20)  # pending writes complete before the next scheduler starts
    await work
    faults.disabled = True


@pytest.mark.parametrize("seed", range(12))
def test_over_a_faulty_connection_every_pod_gets_one_node_and_no_node_too_many(seed: int) -> None:
    async def scenario() -> tuple[list[str], list[Object]]:
        nodes = Nodes(seed)
        await run_faulty_schedulers(nodes)
        async with running(*scheduling(nodes.store, nodes.store.clock)):
            for _ in range(40):
                await asyncio.sleep(1)
                await nodes.end(1.0)
        return nodes.wrong, list((await nodes.store.list(PODS)).items)

    assert virtual_time.run(scenario()) == ([], [])
