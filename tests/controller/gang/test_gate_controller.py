"""The gate controller admits whole gangs in order, and watches nodes only while a gang is waiting."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.controller.gang import gate_controller
from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.gate_controller import GateController
from launcher.controller.gang.gated_gangs import is_gated, pod_overlays
from launcher.core.errors import Conflict, Unavailable
from launcher.core.framework import Framework
from launcher.scheduling.capacity import ClusterCapacity
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import (
    EVENTS,
    FRAMEWORKS,
    NODES,
    PODS,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    Page,
    ResourceKind,
)
from tests.builders import a_role
from tests.controller.gang.builders import NOW, a_gang, create_framework, pods_of
from tests.eventually import eventually


class PodCountCapacity(ClusterCapacity):
    """Capacity for a number of pods, which tests change with ``max_pods[0]``."""

    def __init__(self, max_pods: list[int]) -> None:
        super().__init__()
        self._max_pods = max_pods
        self.reserved: set[Key] = set()
        self.reserve_calls = 0

    def set_node(self, node: Object) -> None: ...

    def remove_node(self, name: str) -> None: ...

    def add_pod(self, pod: Object) -> None:
        self.reserved.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def remove_pod(self, key: Key) -> None:
        self.reserved.discard(key)

    def reserve(self, pods: Sequence[Object], minimum: int) -> str | None:
        self.reserve_calls += 1
        keys = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods} - self.reserved
        free = self._max_pods[0] - len(self.reserved)
        if minimum and free < minimum:
            return f"capacity for {max(free, 0)}"
        self.reserved |= keys
        return None


class GateControllerHarness:
    """A store with gangs, and a gate controller."""

    def __init__(self, store: "FlakyStore") -> None:
        self.store = store
        #: Read at the next reservation.
        self.max_pods = [0]
        self.capacities: list[PodCountCapacity] = []

    @asynccontextmanager
    async def controller(self, *, notify: bool = True) -> AsyncIterator[GateController]:
        """Runs the controller."""
        events = EventRecorder(self.store, lambda: NOW)

        def new_capacity() -> PodCountCapacity:
            self.capacities.append(PodCountCapacity(self.max_pods))
            return self.capacities[-1]

        controller = GateController(self.store, events=events, jitter=lambda: 0.5, capacity=new_capacity)
        if notify:
            controller.notify()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(controller.run()), group.create_task(events.run())]
            yield controller
            for task in tasks:
                task.cancel()

    async def create_gang(self, name: str, tasks: int, pods: int | None = None) -> Framework:
        """Creates the Framework, and all or the first *pods* of its pods."""
        framework = await create_framework(self.store, a_gang(a_role(tasks=tasks), name=name))
        for pod in pods_of(framework, pod_overlays(GangRequest(framework, 0)))[:pods]:
            await self.store.create(PODS, pod)
        return framework

    async def set_capacity(self, max_pods: int) -> None:
        """Changes the capacity and creates a node."""
        self.max_pods[0] = max_pods
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"for-{max_pods}"}}
        await self.store.create(NODES, node)

    async def gated_pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in (await self.store.list(PODS)).items if is_gated(pod)]

    async def eventually(self, probe: Callable[[], Any], description: str) -> Any:
        """Returns the first result of *probe* that is not empty."""

        async def non_empty() -> Any:
            return await probe() or None

        return await eventually(non_empty, description)

    async def event_messages(self, reason: str) -> list[str]:
        events = (await self.store.list(EVENTS)).items
        return [event["message"] for event in events if event["reason"] == reason]

    async def wait_for_event(self, reason: str) -> list[str]:
        """Returns the messages of the events with that reason, once there are any."""
        messages: list[str] = await self.eventually(lambda: self.event_messages(reason), f"an event {reason}")
        return messages

    async def wait_for_gated_pods(self, *names: str) -> None:
        """Returns when exactly these pods have the gate."""

        async def only_these() -> bool:
            return await self.gated_pods() == list(names)

        await self.eventually(only_these, f"exactly {names} are gated")


@pytest.fixture
def harness() -> GateControllerHarness:
    return GateControllerHarness(FlakyStore())


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_controller, "_MIN_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(gate_controller, "_RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(gate_controller, "_EVENT_INTERVAL_SECONDS", 0.0)


async def test_a_gang_is_admitted_when_all_its_pods_fit(harness: GateControllerHarness) -> None:
    await harness.create_gang("a", 3)
    harness.max_pods[0] = 2
    async with harness.controller():
        assert await harness.wait_for_event("GangPending") == ["capacity for 2"]
        assert len(await harness.gated_pods()) == 3

        await harness.set_capacity(3)

        await harness.wait_for_gated_pods()
        await harness.wait_for_event("GangAdmitted")


async def test_capacity_reserved_for_one_gang_is_not_used_for_the_next(
    harness: GateControllerHarness,
) -> None:
    await harness.create_gang("a", 2)
    await harness.create_gang("b", 2)
    harness.max_pods[0] = 3

    async with harness.controller():
        await harness.wait_for_gated_pods("b-worker-0", "b-worker-1")
        assert await harness.wait_for_event("GangPending") == ["capacity for 1"]

        await harness.set_capacity(4)

        await harness.wait_for_gated_pods()


async def test_the_reservation_of_a_deleted_pod_without_a_node_is_released(
    harness: GateControllerHarness,
) -> None:
    await harness.create_gang("a", 2)
    await harness.create_gang("b", 2)
    harness.max_pods[0] = 2
    async with harness.controller():
        await harness.wait_for_gated_pods("b-worker-0", "b-worker-1")

        for name in ("a-worker-0", "a-worker-1"):
            await harness.store.delete(PODS, "default", name, DeleteOptions(grace=0))

        await harness.wait_for_gated_pods()


async def test_after_a_restart_a_partially_admitted_gang_is_completed_first(
    harness: GateControllerHarness,
) -> None:
    await harness.create_gang("z", 2)
    await harness.create_gang("a", 2)
    harness.max_pods[0] = 2
    patch = MergePatch({"spec": {"schedulingGates": None}})
    await harness.store.patch(PODS, "default", "z-worker-0", patch)

    async with harness.controller():
        await harness.wait_for_gated_pods("a-worker-0", "a-worker-1")
        assert await harness.wait_for_event("GangPending") == ["capacity for 0"]


async def test_a_pod_created_after_the_admission_of_its_gang_uses_capacity(
    harness: GateControllerHarness,
) -> None:
    framework = await harness.create_gang("a", 2, pods=0)
    first, second = pods_of(framework, pod_overlays(GangRequest(framework, 0)))
    await harness.store.create(
        PODS, {**first, "spec": {**first["spec"], "schedulingGates": [], "nodeName": "n"}}
    )
    await harness.create_gang("b", 2)
    harness.max_pods[0] = 2
    async with harness.controller():
        await harness.wait_for_event("GangPending")

        await harness.store.create(PODS, second)

        await harness.wait_for_gated_pods("b-worker-0", "b-worker-1")

        async def recorded_again() -> bool:
            return set(await harness.event_messages("GangPending")) == {"capacity for 1", "capacity for 0"}

        await harness.eventually(recorded_again, "less capacity is left for b")


async def test_an_event_with_the_same_message_is_recorded_once(harness: GateControllerHarness) -> None:
    await harness.create_gang("a", 2)
    async with harness.controller():

        async def evaluated_often() -> bool:
            return bool(harness.capacities) and harness.capacities[0].reserve_calls > 3

        await harness.eventually(evaluated_often, "the gang was evaluated several times")
        await harness.set_capacity(2)
        await harness.wait_for_event("GangAdmitted")

    counts = {event["reason"]: event["count"] for event in (await harness.store.list(EVENTS)).items}
    assert counts == {"GangPending": 1, "GangAdmitted": 1}


async def test_a_changing_reason_is_recorded_at_most_once_per_interval(
    harness: GateControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_controller, "_EVENT_INTERVAL_SECONDS", 60.0)
    await harness.create_gang("a", 3)
    async with harness.controller():
        await harness.wait_for_event("GangPending")
        calls = harness.capacities[0].reserve_calls
        await harness.set_capacity(1)

        async def evaluated_again() -> bool:
            return harness.capacities[0].reserve_calls > calls + 2

        await harness.eventually(evaluated_again, "the gang was evaluated again")
        await harness.set_capacity(3)
        await harness.wait_for_event("GangAdmitted")

    assert await harness.event_messages("GangPending") == ["capacity for 0"]


async def test_existing_gangs_are_found_without_a_notification(harness: GateControllerHarness) -> None:
    await harness.create_gang("a", 1)
    harness.max_pods[0] = 1

    async with harness.controller(notify=False):
        await harness.wait_for_gated_pods()


async def test_a_scaled_down_gang_waits_for_fewer_pods(harness: GateControllerHarness) -> None:
    await harness.create_gang("a", 3)
    async with harness.controller():
        await harness.wait_for_event("GangPending")
        smaller = MergePatch({"spec": a_gang(a_role(tasks=2))["spec"]})
        await harness.store.patch(FRAMEWORKS, "default", "a", smaller)

        await harness.store.delete(PODS, "default", "a-worker-2", DeleteOptions(grace=0))
        await harness.set_capacity(2)

        await harness.wait_for_gated_pods()


async def test_a_retried_task_is_admitted_after_all_other_pods_of_its_placed_gang_were_deleted(
    harness: GateControllerHarness,
) -> None:
    await harness.create_gang("a", 2, pods=1)
    placed = {
        "type": "GangPlaced",
        "status": "True",
        "reason": "Placed",
        "message": "",
        "lastTransitionTime": _NOW,
    }
    await harness.store.patch(
        FRAMEWORKS, "default", "a", MergePatch({"status": _status(placed)}), subresource="status"
    )

    async with harness.controller():
        await harness.wait_for_gated_pods()


_NOW = "2026-01-01T00:00:00Z"


def _status(condition: Object) -> Object:
    """The fields of a status that the controller reads."""
    return {
        "startTime": _NOW,
        "transitionTime": _NOW,
        "state": "AttemptRunning",
        "conditions": [condition],
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
        "attemptStatus": {"id": 0, "startTime": _NOW, "taskRoleStatuses": []},
    }


class FlakyStore(MemoryStore):
    """A store whose first patches of pods, or first lists, fail. It records the names that are read."""

    def __init__(self, *, failing_patches: int = 0, failing_lists: int = 0) -> None:
        uids = (f"uid-{number}" for number in itertools.count())
        super().__init__(lambda: NOW, lambda: next(uids))
        self.failing_patches, self.failing_lists = failing_patches, failing_lists
        self.read_names: list[str] = []

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        self.read_names.append(name)
        return await super().get(kind, namespace, name)

    async def patch(
        self, kind: ResourceKind, namespace: str, name: str, *args: Any, **options: Any
    ) -> Object:
        if kind == PODS and self.failing_patches:
            self.failing_patches -= 1
            raise (Conflict if self.failing_patches % 2 else Unavailable)("patch failed")
        return await super().patch(kind, namespace, name, *args, **options)

    async def list(self, *args: Any, **options: Any) -> Page:
        if self.failing_lists:
            self.failing_lists -= 1
            raise Unavailable("list failed")
        return await super().list(*args, **options)


async def test_nodes_are_watched_only_while_a_complete_gang_is_waiting() -> None:
    store = FlakyStore()
    harness = GateControllerHarness(store)
    framework = await harness.create_gang("a", 2, pods=1)
    harness.max_pods[0] = 2
    async with harness.controller():

        async def framework_was_read() -> bool:
            return len(store.read_names) > 2

        await harness.eventually(framework_was_read, "the Framework of the incomplete gang was read")
        assert harness.capacities == []

        await store.create(PODS, pods_of(framework, pod_overlays(GangRequest(framework, 0)))[1])

        await harness.wait_for_gated_pods()
        assert len(harness.capacities) == 1


async def test_the_removal_of_gates_is_retried() -> None:
    harness = GateControllerHarness(FlakyStore(failing_patches=3))
    await harness.create_gang("a", 4)
    harness.max_pods[0] = 4

    async with harness.controller():
        await harness.wait_for_gated_pods()


async def test_the_removal_of_a_remaining_gate_is_retried() -> None:
    harness = GateControllerHarness(FlakyStore())
    await harness.create_gang("a", 2)
    await harness.store.patch(PODS, "default", "a-worker-0", MergePatch({"spec": {"schedulingGates": None}}))
    harness.store.failing_patches = 2

    async with harness.controller():
        await harness.wait_for_gated_pods()


async def test_listing_gated_pods_is_retried() -> None:
    store = FlakyStore(failing_lists=2)
    harness = GateControllerHarness(store)
    await harness.create_gang("a", 1)
    harness.max_pods[0] = 1

    async with harness.controller(notify=False):

        async def lists_failed() -> bool:
            return not store.failing_lists

        await harness.eventually(lists_failed, "two lists failed")
        await harness.wait_for_gated_pods()
