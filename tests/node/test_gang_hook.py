"""Gangs from the Framework to the nodes: what its pods carry, and what becomes of that when the spec changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from launcher.controller.framework_controller import FrameworkController
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.planning.gang import GANG_PLACED
from launcher.core.spec import FrameworkName, Gang
from launcher.core.status import Condition, FrameworkAttempt, FrameworkStatus
from launcher.node.gang_hook import LocalGangHook
from launcher.scheduling.pod_info import GANG, GANG_MIN
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, NODES, PODS, DeleteOptions, MergePatch, Object
from tests.controller.simulation.scenes import a_framework, a_role
from tests.core.world import UID, a_spec
from tests.core.world import a_role as a_core_role
from tests.node.clusters import NOW, a_store, quiet, running, until
from tests.node.scheduling import node_json
from tests.node.test_gang_scheduler import bound
from tests.node.test_scheduler import scheduling


async def prepared(status: bool | None, gang: Gang | None = None, **spec: Any) -> dict[str, dict[str, Any]]:
    """The annotations for each role of a Framework whose gang was placed, or not (None: nothing is known of it)."""
    roles = (a_core_role("w", 3), a_core_role("board", background=True))
    told = () if status is None else (Condition(GANG_PLACED, status, 0, "R"),)
    known = FrameworkStatus(0, 0, FrameworkAttempt(0, 0), (), conditions=told)
    framework = Framework(
        FrameworkName("f"), "default", UID, 1, a_spec(*roles, gang=gang or Gang(), **spec), known
    )
    extras = await LocalGangHook(a_store()).prepare(framework, 2)
    return {name: dict(each.annotations) for name, each in extras.items()}


async def test_the_pods_of_a_gang_carry_its_attempt_and_how_many_are_needed() -> None:
    marks = await prepared(False)
    fewer = await prepared(False, Gang(min_tasks=2))

    assert set(marks) == {"w"}
    assert marks["w"][GANG].startswith("2_")
    assert (marks["w"][GANG_MIN], fewer["w"][GANG_MIN]) == ("3", "2")


async def test_pods_that_come_to_a_placed_gang_carry_nothing() -> None:
    assert await prepared(True) == {}
    assert await prepared(None) == {}


@asynccontextmanager
async def launched(store: MemoryStore) -> AsyncIterator[None]:
    """A controller and a scheduler at work."""
    controller = FrameworkController(
        store, clock=lambda: NOW, chance=lambda: 0.0, attendants=[LocalGangHook(store)], check=lambda _: ()
    )
    async with running(controller, *scheduling(store)):
        yield


def a_gang(tasks: int, **spec: Any) -> Object:
    role = a_role("w", tasks, retries=1)
    role["task"] = {
        **role["task"],
        "pod": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}},
                ],
            }
        },
    }
    return a_framework("f", role, **{"gang": {}, **spec})


async def with_room_for(pods: int) -> MemoryStore:
    store = a_store()
    await store.create(NODES, node_json("n1", cpu=pods))
    return store


async def change(store: MemoryStore, **spec: Any) -> None:
    await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": spec}))


async def condition(store: MemoryStore) -> Object:
    status = (await store.get(FRAMEWORKS, "default", "f")).get("status") or {}
    return next((dict(each) for each in status.get("conditions", ()) if each["type"] == GANG_PLACED), {})


async def is_placed(store: MemoryStore) -> bool:
    return (await condition(store)).get("status") == "True"


async def is_told(store: MemoryStore, words: str) -> bool:
    return words in (await condition(store)).get("message", "")


async def test_a_gang_waits_whole_says_why_and_is_placed_whole() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await until(lambda: is_told(store, "gang of 3: 2 fit now"))
        before = await bound(store)
        await store.create(NODES, node_json("n2", cpu=1))
        await until(lambda: is_placed(store))

    assert before == []
    assert (await condition(store))["message"] == "all 3 tasks of the gang are placed"


async def test_a_gang_that_is_made_smaller_while_it_waits_waits_for_fewer() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await until(lambda: is_told(store, "gang of 3: 2 fit now"))
        await change(store, taskRoles=a_gang(2)["spec"]["taskRoles"])
        await until(lambda: is_placed(store))

    assert sorted(await bound(store)) == ["f-w-0", "f-w-1"]


async def test_a_gang_that_is_made_larger_while_it_waits_waits_for_more() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await until(lambda: is_told(store, "gang of 3: 2 fit now"))
        await change(store, taskRoles=a_gang(4)["spec"]["taskRoles"])
        await until(lambda: is_told(store, "gang of 4: 2 fit now"))
        await store.create(NODES, node_json("n2", cpu=2))
        await until(lambda: is_placed(store))

    assert len(await bound(store)) == 4


async def test_what_a_launcher_that_ended_did_not_tell_the_pods_the_next_one_does() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(3))
    async with launched(store):
        await until(lambda: is_told(store, "gang of 3: 2 fit now"))

    # Only the controller's part of the change was done: the pod is gone, and the others still wait for it.
    controller = FrameworkController(store, clock=lambda: NOW, chance=lambda: 0.0, check=lambda _: ())
    async with running(controller):
        await change(store, taskRoles=a_gang(2)["spec"]["taskRoles"])
        await until(lambda: _has_pods(store, 2))
        await quiet(store)
    async with launched(store):
        await until(lambda: is_placed(store))


async def _has_pods(store: MemoryStore, count: int) -> bool:
    return len((await store.list(PODS)).items) == count


async def test_a_gang_that_is_no_longer_asked_for_is_placed_one_by_one() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await until(lambda: is_told(store, "gang of 3: 2 fit now"))
        await change(store, gang=None)
        await until(lambda: _are_bound(store, 2))


async def test_tasks_that_are_added_to_a_placed_gang_come_when_they_can() -> None:
    store = await with_room_for(3)
    await store.create(FRAMEWORKS, a_gang(2))

    async with launched(store):
        await until(lambda: is_placed(store))
        await change(store, taskRoles=a_gang(5)["spec"]["taskRoles"])
        await until(lambda: _are_bound(store, 3))
        added = await store.get(PODS, "default", "f-w-4")

    assert GANG not in added["metadata"]["annotations"]
    assert await is_placed(store)


async def test_a_task_that_is_retried_into_a_placed_gang_waits_for_nobody() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(2))

    async with launched(store):
        await until(lambda: is_placed(store))
        for name in ("f-w-0", "f-w-1"):
            await store.delete(PODS, "default", name, DeleteOptions(grace=0))
        await until(lambda: _are_retried(store))

    pods = (await store.list(PODS)).items
    assert all(GANG not in pod["metadata"]["annotations"] for pod in pods)


async def _are_bound(store: MemoryStore, count: int) -> bool:
    return len(await bound(store)) == count


async def _are_retried(store: MemoryStore) -> bool:
    pods = (await store.list(PODS)).items
    tries = [
        pod["metadata"]["labels"][PodIdentityKey.TASK_ATTEMPT_ID]
        for pod in pods
        if pod["spec"].get("nodeName")
    ]
    return tries == ["1", "1"]


async def test_the_next_attempt_is_another_gang() -> None:
    store = await with_room_for(2)
    await store.create(FRAMEWORKS, a_gang(2, retryPolicy={"maxRetryCount": 1, "fancyRetryPolicy": False}))

    async with launched(store):
        await until(lambda: is_placed(store))
        first = await store.get(PODS, "default", "f-w-0")
        for _ in range(2):  # its one retry, and then the attempt
            await _fail(store, "f-w-0")
        await until(lambda: _is_attempt(store, 1))
        await until(lambda: is_placed(store))
        second = await store.get(PODS, "default", "f-w-0")

    assert first["metadata"]["annotations"][GANG] != second["metadata"]["annotations"][GANG]


async def _is_attempt(store: MemoryStore, number: int) -> bool:
    status = (await store.get(FRAMEWORKS, "default", "f"))["status"]
    return bool(status["attemptStatus"]["id"] == number)


async def _fail(store: MemoryStore, name: str) -> None:
    """The pod that is there ends, and all that is deleted for that goes."""
    pod = await store.get(PODS, "default", name)
    await store.update_status(PODS, {**pod, "status": {"phase": "Failed"}})
    uid = pod["metadata"]["uid"]

    async def is_another() -> bool:
        there = {each["metadata"]["name"]: each for each in (await store.list(PODS)).items}
        for each in there.values():
            if "deletionTimestamp" in each["metadata"]:
                await store.delete(PODS, "default", each["metadata"]["name"], DeleteOptions(grace=0))
        return (
            name in there
            and there[name]["metadata"]["uid"] != uid
            and bool(there[name]["spec"].get("nodeName"))
        )

    await until(is_another)
