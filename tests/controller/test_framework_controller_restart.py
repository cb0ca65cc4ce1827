"""The controller on the SQLite store, in real time, with a restart of both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from time import time
from uuid import uuid4

from launcher.controller.framework_controller import FrameworkController
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, ChangeType, MergePatch, Object
from tests.controller.simulation.scenarios import a_framework, a_role

TASKS = 20


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, clock=time, new_uid=lambda: str(uuid4()))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def run_controller(store: SqliteStore) -> AsyncIterator[FrameworkController]:
    controller = FrameworkController(store, clock=time, jitter=Random(1).random)
    task = asyncio.create_task(controller.run())
    try:
        yield controller
    finally:
        controller.stop()
        await asyncio.wait_for(task, 30)


async def report_status(store: SqliteStore, name: str, status: Object) -> None:
    await store.patch(PODS, "default", name, MergePatch({"spec": {"nodeName": "n"}}))
    await store.patch(PODS, "default", name, MergePatch({"status": status}), subresource="status")


async def wait_for_task_counts(store: SqliteStore, counts: dict[str, int]) -> None:
    """Returns when the Framework has this number of tasks in each state."""
    async with asyncio.timeout(30):
        page = await store.list(FRAMEWORKS)
        if any((obj.get("status") or {}).get("taskCounts") == counts for obj in page.items):
            return
        async with aclosing(store.watch(FRAMEWORKS, since=page.version)) as changes:
            async for change in changes:
                if (change.object.get("status") or {}).get("taskCounts") == counts:
                    return


async def wait_for_pods(store: SqliteStore, number: int) -> list[str]:
    """Returns the names of the pods when that many exist."""
    page = await store.list(PODS)
    names = [pod["metadata"]["name"] for pod in page.items]
    async with asyncio.timeout(30), aclosing(store.watch(PODS, since=page.version)) as changes:
        while len(names) < number:
            change = await anext(changes)
            if change.type is ChangeType.ADDED:
                names.append(change.object["metadata"]["name"])
    return names


async def test_a_framework_continues_after_a_restart_of_store_and_controller(
    tmp_path: Path,
) -> None:
    path = tmp_path / "launcher.db"
    async with open_store(path) as store, run_controller(store):
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", TASKS, retries=1)))
        names = await wait_for_pods(store, TASKS)
        for name in names:
            await report_status(store, name, {"phase": "Running", "podIP": "10.0.0.1"})
        await wait_for_task_counts(store, {"AttemptRunning": TASKS})
        uids = {pod["metadata"]["uid"] for pod in (await store.list(PODS)).items}

    async with open_store(path) as store:
        await report_status(store, names[0], {"phase": "Failed"})  # while no controller runs
        async with run_controller(store):
            for name in names[1:]:
                await report_status(store, name, {"phase": "Succeeded"})
            await wait_for_task_counts(store, {"AttemptPreparing": 1, "Completed": TASKS - 1})
            current_uids = {pod["metadata"]["uid"] for pod in (await store.list(PODS)).items}
            await report_status(store, names[0], {"phase": "Succeeded"})
            await wait_for_task_counts(store, {"Completed": TASKS})
        (framework,) = (await store.list(FRAMEWORKS)).items
        events = {event["reason"] for event in (await store.list(EVENTS)).items}

    assert len(current_uids & uids) == TASKS - 1, "one pod was replaced, the others are the same"
    assert framework["status"]["state"] == "Completed"
    assert framework["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert {"AttemptRunning", "FrameworkSucceeded"} <= events
