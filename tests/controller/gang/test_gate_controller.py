"""Gates open for whole gangs, one after the other, and nothing is watched for nothing."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.controller.gang import gate_controller
from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.gate_controller import GateController
from launcher.controller.gang.gated_gangs import extras, is_gated
from launcher.core.errors import Conflict, Unavailable
from launcher.core.framework import Framework
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
from tests.controller.gang.builders import NOW, a_gang, pods_of, stored
from tests.core.manifests import a_role
from tests.store.builders import PATIENCE


class Slots:
    """Room for so many pods, wherever they go."""

    def __init__(self, slots: list[int]) -> None:
        self._slots = slots
        self.taken: set[Key] = set()
        self.tries = 0

    def set_node(self, node: Object) -> None: ...

    def drop_node(self, name: str) -> None: ...

    def put(self, pod: Object) -> None:
        self.taken.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def drop(self, key: Key) -> None:
        self.taken.discard(key)

    def reserve(self, pods: Sequence[Object], least: int) -> str | None:
        self.tries += 1
        keys = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods} - self.taken
        free = self._slots[0] - len(self.taken)
        if least and free < least:
            return f"room for {max(free, 0)}"
        self.taken |= keys
        return None


class Bed:
    """A store with gangs in it, and one who keeps their gates."""

    def __init__(self, store: "Faulty") -> None:
        self.store = store
        #: Changed by a test, seen at the next look.
        self.slots = [0]
        self.rooms: list[Slots] = []

    @asynccontextmanager
    async def keeping(self, *, called: bool = True) -> AsyncIterator[GateController]:
        events = EventRecorder(self.store, lambda: NOW)

        def room() -> Slots:
            self.rooms.append(Slots(self.slots))
            return self.rooms[-1]

        made = GateController(self.store, room, events=events, chance=lambda: 0.5)
        if called:
            made.notify()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(made.run()), group.create_task(events.run())]
            yield made
            for task in tasks:
                task.cancel()

    async def gang(self, name: str, tasks: int, there: int | None = None) -> Framework:
        """The Framework, and as many of its pods as are *there*."""
        framework = await stored(self.store, a_gang(a_role(tasks=tasks), name=name))
        for pod in pods_of(framework, extras(GangRequest(framework, 0)))[:there]:
            await self.store.create(PODS, pod)
        return framework

    async def give(self, slots: int) -> None:
        """There is more room: a node has changed."""
        self.slots[0] = slots
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"for-{slots}"}}
        await self.store.create(NODES, node)

    async def gated(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in (await self.store.list(PODS)).items if is_gated(pod)]

    async def until(self, holds: Callable[[], Any], what: str) -> Any:
        """What *holds* gives, once it gives something."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := await holds()):  # noqa: ASYNC110 - nobody tells when it holds
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never: {what}") from None
        return found

    async def told(self, reason: str) -> list[str]:
        events = (await self.store.list(EVENTS)).items
        return [event["message"] for event in events if event["reason"] == reason]

    async def opened(self, *left: str) -> None:
        """Return when just these are left behind gates."""

        async def look() -> bool:
            return await self.gated() == list(left)

        await self.until(look, f"{left} are left")


@pytest.fixture
def bed() -> Bed:
    return Bed(Faulty())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_controller, "_PAUSE", 0.01)
    monkeypatch.setattr(gate_controller, "_LOOK_AGAIN", 0.05)
    monkeypatch.setattr(gate_controller, "_TELL_AGAIN", 0.0)


async def test_a_gang_is_let_through_when_there_is_room_for_all_of_it(bed: Bed) -> None:
    await bed.gang("a", 3)
    bed.slots[0] = 2
    async with bed.keeping():
        assert await bed.until(lambda: bed.told("GangWaits"), "it is told") == ["room for 2"]
        assert len(await bed.gated()) == 3

        await bed.give(3)

        await bed.opened()
        await bed.until(lambda: bed.told("GangAdmitted"), "that is told too")


async def test_what_one_gang_was_promised_the_next_does_not_get(bed: Bed) -> None:
    await bed.gang("a", 2)
    await bed.gang("b", 2)
    bed.slots[0] = 3

    async with bed.keeping():
        await bed.opened("b-worker-0", "b-worker-1")
        assert await bed.until(lambda: bed.told("GangWaits"), "b is told") == ["room for 1"]

        await bed.give(4)

        await bed.opened()


async def test_one_that_goes_without_a_node_leaves_its_room_to_others(bed: Bed) -> None:
    await bed.gang("a", 2)
    await bed.gang("b", 2)
    bed.slots[0] = 2
    async with bed.keeping():
        await bed.opened("b-worker-0", "b-worker-1")

        for name in ("a-worker-0", "a-worker-1"):
            await bed.store.delete(PODS, "default", name, DeleteOptions(grace=0))

        await bed.opened()


async def test_after_a_restart_a_gang_that_was_let_through_in_part_goes_first(bed: Bed) -> None:
    await bed.gang("z", 2)
    await bed.gang("a", 2)
    bed.slots[0] = 2
    change = MergePatch({"spec": {"schedulingGates": None}})
    await bed.store.patch(PODS, "default", "z-worker-0", change)

    async with bed.keeping():
        await bed.opened("a-worker-0", "a-worker-1")
        assert await bed.until(lambda: bed.told("GangWaits"), "a waits") == ["room for 0"]


async def test_who_follows_its_gang_takes_room_too(bed: Bed) -> None:
    framework = await bed.gang("a", 2, there=0)
    first, later = pods_of(framework, extras(GangRequest(framework, 0)))
    await bed.store.create(PODS, {**first, "spec": {**first["spec"], "schedulingGates": [], "nodeName": "n"}})
    await bed.gang("b", 2)
    bed.slots[0] = 2
    async with bed.keeping():
        await bed.until(lambda: bed.told("GangWaits"), "b waits")

        await bed.store.create(PODS, later)

        await bed.opened("b-worker-0", "b-worker-1")

        async def told_again() -> bool:
            return set(await bed.told("GangWaits")) == {"room for 1", "room for 0"}

        await bed.until(told_again, "there is less room for b")


async def test_the_same_is_told_once(bed: Bed) -> None:
    await bed.gang("a", 2)
    async with bed.keeping():

        async def tried_often() -> bool:
            return bool(bed.rooms) and bed.rooms[0].tries > 3

        await bed.until(tried_often, "it is looked at again and again")
        await bed.give(2)
        await bed.until(lambda: bed.told("GangAdmitted"), "that is told last")

    counts = {event["reason"]: event["count"] for event in (await bed.store.list(EVENTS)).items}
    assert counts == {"GangWaits": 1, "GangAdmitted": 1}


async def test_a_reason_that_changes_all_the_time_is_not_told_all_the_time(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_controller, "_TELL_AGAIN", 60.0)
    await bed.gang("a", 3)
    async with bed.keeping():
        await bed.until(lambda: bed.told("GangWaits"), "it is told")
        tries = bed.rooms[0].tries
        await bed.give(1)

        async def tried_again() -> bool:
            return bed.rooms[0].tries > tries + 2

        await bed.until(tried_again, "it is looked at again")
        await bed.give(3)
        await bed.until(lambda: bed.told("GangAdmitted"), "what is good is told at once")

    assert await bed.told("GangWaits") == ["room for 0"]


async def test_gangs_that_are_there_are_found_without_a_call(bed: Bed) -> None:
    await bed.gang("a", 1)
    bed.slots[0] = 1

    async with bed.keeping(called=False):
        await bed.opened()


async def test_a_gang_that_has_become_smaller_waits_for_fewer(bed: Bed) -> None:
    await bed.gang("a", 3)
    async with bed.keeping():
        await bed.until(lambda: bed.told("GangWaits"), "it waits")
        smaller = MergePatch({"spec": a_gang(a_role(tasks=2))["spec"]})
        await bed.store.patch(FRAMEWORKS, "default", "a", smaller)

        await bed.store.delete(PODS, "default", "a-worker-2", DeleteOptions(grace=0))
        await bed.give(2)

        await bed.opened()


async def test_a_task_that_comes_again_when_the_pods_of_all_others_are_gone_is_let_through(bed: Bed) -> None:
    await bed.gang("a", 2, there=1)
    placed = {
        "type": "GangPlaced",
        "status": "True",
        "reason": "Placed",
        "message": "",
        "lastTransitionTime": _NOW,
    }
    await bed.store.patch(
        FRAMEWORKS, "default", "a", MergePatch({"status": _status(placed)}), subresource="status"
    )

    async with bed.keeping():
        await bed.opened()


_NOW = "2026-01-01T00:00:00Z"


def _status(condition: Object) -> Object:
    """As the launcher writes it, as far as it matters."""
    return {
        "startTime": _NOW,
        "transitionTime": _NOW,
        "state": "AttemptRunning",
        "conditions": [condition],
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
        "attemptStatus": {"id": 0, "startTime": _NOW, "taskRoleStatuses": []},
    }


class Faulty(MemoryStore):
    """One that does not take the first changes of pods, or cannot be listed at first; it counts who is asked for."""

    def __init__(self, *, changes: int = 0, lists: int = 0) -> None:
        uids = (f"uid-{number}" for number in itertools.count())
        super().__init__(lambda: NOW, lambda: next(uids))
        self.changes, self.lists = changes, lists
        self.asked: list[str] = []

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        self.asked.append(name)
        return await super().get(kind, namespace, name)

    async def patch(self, kind: ResourceKind, namespace: str, name: str, *args: Any, **more: Any) -> Object:
        if kind == PODS and self.changes:
            self.changes -= 1
            raise (Conflict if self.changes % 2 else Unavailable)("not now")
        return await super().patch(kind, namespace, name, *args, **more)

    async def list(self, *args: Any, **more: Any) -> Page:
        if self.lists:
            self.lists -= 1
            raise Unavailable("not now")
        return await super().list(*args, **more)


async def test_room_is_looked_at_only_while_a_whole_gang_waits_for_it() -> None:
    store = Faulty()
    bed = Bed(store)
    framework = await bed.gang("a", 2, there=1)
    bed.slots[0] = 2
    async with bed.keeping():

        async def asked_again() -> bool:
            return len(store.asked) > 2

        await bed.until(asked_again, "it is asked why the gang is not whole")
        assert bed.rooms == []

        await store.create(PODS, pods_of(framework, extras(GangRequest(framework, 0)))[1])

        await bed.opened()
        assert len(bed.rooms) == 1


async def test_a_gate_that_could_not_be_opened_is_opened_later() -> None:
    bed = Bed(Faulty(changes=3))
    await bed.gang("a", 4)
    bed.slots[0] = 4

    async with bed.keeping():
        await bed.opened()


async def test_so_is_that_of_one_who_follows_its_gang() -> None:
    bed = Bed(Faulty())
    await bed.gang("a", 2)
    await bed.store.patch(PODS, "default", "a-worker-0", MergePatch({"spec": {"schedulingGates": None}}))
    bed.store.changes = 2

    async with bed.keeping():
        await bed.opened()


async def test_a_store_that_is_away_at_first_is_asked_again() -> None:
    store = Faulty(lists=2)
    bed = Bed(store)
    await bed.gang("a", 1)
    bed.slots[0] = 1

    async with bed.keeping(called=False):

        async def tried() -> bool:
            return not store.lists

        await bed.until(tried, "it has tried")
        await bed.opened()
