"""Gang annotations from the Framework to the scheduler, and their updates when the spec changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from launcher.controller.framework_controller import FrameworkController
from launcher.core.framework import Framework
from launcher.core.names import GANG_ANNOTATION, GANG_MIN_ANNOTATION, PodIdentityKey
from launcher.core.planning.gang import GANG_PLACED
from launcher.core.spec import FrameworkName, Gang
from launcher.core.status import Condition, FrameworkAttempt, FrameworkStatus
from launcher.node.gang_hook import LocalGangHook
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, NODES, PODS, DeleteOptions, MergePatch, Object
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.core.builders import UID, a_spec
from tests.core.builders import a_role as a_core_role
from tests.eventually import eventually
from tests.node.clusters import NOW, a_store, quiet, running
from tests.node.test_scheduler import scheduling
from tests.node.test_scheduler_gangs import bound
from tests.scheduling.builders import node_json


async def prepared(status: bool | None, gang: Gang | None = None, **spec: Any) -> dict[str, dict[str, Any]]:
    """Returns the annotations of each role of a Framework whose gang was scheduled or not (None: unknown)."""
    roles = (a_core_role("w", 3), a_core_role("board", background=True))
    conditions = () if status is None else (Condition(GANG_PLACED, status, 0, "R"),)
    known = FrameworkStatus(0, 0, FrameworkAttempt(0, 0), (), conditions=conditions)
    framework = Framework(
        FrameworkName("f"), "default", UID, 1, a_spec(*roles, gang=gang or Gang(), **spec), known
    )
    extras = await LocalGangHook(a_store()).prepare(framework, 2)
    return {name: dict(each.annotations) for name, each in extras.items()}


async def test_pods_of_a_gang_have_annotations_with_its_attempt_and_minimum() -> None:
    marks = await prepared(False)
    fewer = await prepared(False, Gang(min_tasks=2))

    assert set(marks) == {"w"}
    assert marks["w"][GANG_ANNOTATION].startswith("2_")
    assert (marks["w"][GANG_MIN_ANNOTATION], fewer["w"][GANG_MIN_ANNOTATION]) == ("3", "2")


async def test_pods_added_to_a_scheduled_gang_have_no_gang_annotations() -> None:
    assert await prepared(True) == {}
    assert await prepared(None) == {}


@asynccontextmanager
async def launched(store: MemoryStore) -> AsyncIterator[None]:
    """Runs a controller and a scheduler."""
    controller = FrameworkController(
        store, clock=lambda: NOW, jitter=lambda: 0.0, hooks=[LocalGangHook(store)], validate=lambda _: ()
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


async def store_with_capacity_for(pods: int) -> MemoryStore:
    store = a_store()
    await store.create(NODES, node_json("n1", cpu=pods))
    return store


async def change(store: MemoryStore, **spec: Any) -> None:
    await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": spec}))


async def condition(store: MemoryStore) -> Object:
    status = (await store.get(FRAMEWORKS, "default", "f")).get("status") or {}
    return next((dict(each) for each in status.get("conditions", ()) if each["type"] == GANG_PLACED), {})


async def is_scheduled(store: MemoryStore) -> bool:
    return (await condition(store)).get("status") == "True"


async def has_condition(store: MemoryStore, words: str) -> bool:
    return words in (await condition(store)).get("message", "")


async def test_a_gang_is_pending_with_a_reason_and_then_scheduled_as_a_whole() -> None:
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await eventually(lambda: has_condition(store, "Gang of 3: 2 of 3 pods fit"))
        before = await bound(store)
        await store.create(NODES, node_json("n2", cpu=1))
        await eventually(lambda: is_scheduled(store))

    assert before == []
    assert (await condition(store))["message"] == "All 3 tasks of the gang are scheduled."


async def test_a_pending_gang_scaled_down_waits_for_fewer_pods() -> None:
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await eventually(lambda: has_condition(store, "Gang of 3: 2 of 3 pods fit"))
        await change(store, taskRoles=a_gang(2)["spec"]["taskRoles"])
        await eventually(lambda: is_scheduled(store))

    assert sorted(await bound(store)) == ["f-w-0", "f-w-1"]


async def test_a_pending_gang_scaled_up_waits_for_more_pods() -> None:
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await eventually(lambda: has_condition(store, "Gang of 3: 2 of 3 pods fit"))
        await change(store, taskRoles=a_gang(4)["spec"]["taskRoles"])
        await eventually(lambda: has_condition(store, "Gang of 4: 2 of 4 pods fit"))
        await store.create(NODES, node_json("n2", cpu=2))
        await eventually(lambda: is_scheduled(store))

    assert len(await bound(store)) == 4


async def test_annotations_not_updated_before_a_restart_are_updated_after_it() -> None:
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(3))
    async with launched(store):
        await eventually(lambda: has_condition(store, "Gang of 3: 2 of 3 pods fit"))

    # Only the controller's part of the change took effect: the pod is deleted, and the others still wait for it.
    controller = FrameworkController(store, clock=lambda: NOW, jitter=lambda: 0.0, validate=lambda _: ())
    async with running(controller):
        await change(store, taskRoles=a_gang(2)["spec"]["taskRoles"])
        await eventually(lambda: _has_pods(store, 2))
        await quiet(store)
    async with launched(store):
        await eventually(lambda: is_scheduled(store))


async def _has_pods(store: MemoryStore, count: int) -> bool:
    return len((await store.list(PODS)).items) == count


async def test_a_gang_removed_from_the_spec_is_scheduled_individually() -> None:
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(3))

    async with launched(store):
        await eventually(lambda: has_condition(store, "Gang of 3: 2 of 3 pods fit"))
        await change(store, gang=None)
        await eventually(lambda: _are_bound(store, 2))


async def test_tasks_added_to_a_scheduled_gang_are_scheduled_individually() -> None:
    store = await store_with_capacity_for(3)
    await store.create(FRAMEWORKS, a_gang(2))

    async with launched(store):
        await eventually(lambda: is_scheduled(store))
        await change(store, taskRoles=a_gang(5)["spec"]["taskRoles"])
        await eventually(lambda: _are_bound(store, 3))
        added = await store.get(PODS, "default", "f-w-4")

    assert GANG_ANNOTATION not in added["metadata"]["annotations"]
    assert await is_scheduled(store)


async def test_a_retried_task_of_a_scheduled_gang_is_scheduled_alone() -> None:
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(2))

    async with launched(store):
        await eventually(lambda: is_scheduled(store))
        for name in ("f-w-0", "f-w-1"):
            await store.delete(PODS, "default", name, DeleteOptions(grace=0))
        await eventually(lambda: _are_retried(store))

    pods = (await store.list(PODS)).items
    assert all(GANG_ANNOTATION not in pod["metadata"]["annotations"] for pod in pods)


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
    store = await store_with_capacity_for(2)
    await store.create(FRAMEWORKS, a_gang(2, retryPolicy={"maxRetryCount": 1, "fancyRetryPolicy": False}))

    async with launched(store):
        await eventually(lambda: is_scheduled(store))
        first = await store.get(PODS, "default", "f-w-0")
        for _ in range(2):  # its only retry, then the next attempt
            await _fail(store, "f-w-0")
        await eventually(lambda: _is_attempt(store, 1))
        await eventually(lambda: is_scheduled(store))
        second = await store.get(PODS, "default", "f-w-0")

    assert (
        first["metadata"]["annotations"][GANG_ANNOTATION]
        != second["metadata"]["annotations"][GANG_ANNOTATION]
    )


async def _is_attempt(store: MemoryStore, number: int) -> bool:
    status = (await store.get(FRAMEWORKS, "default", "f"))["status"]
    return bool(status["attemptStatus"]["id"] == number)


async def _fail(store: MemoryStore, name: str) -> None:
    """Fails the existing pod and waits for its deletion and replacement."""
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

    await eventually(is_another)
