"""Recent failures per node, from Frameworks and from their recorded attempts."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.api.resources.node_failures import MAX_LATEST, PATH, SINCE_SECONDS, NodeFailureIndex
from launcher.core.timestamps import format_rfc3339
from launcher.store.interface import FRAMEWORK_ATTEMPTS, FRAMEWORKS, DeleteOptions
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import framework
from tests.eventually import eventually

Json = dict[str, Any]


@asynccontextmanager
async def indexed(idle_seconds: float = 600.0) -> AsyncIterator[Api]:
    """A server with an index of failures."""
    store = memory_store()
    index = NodeFailureIndex(store, idle_seconds=idle_seconds)
    task = asyncio.create_task(index.run())
    try:
        async with serving(api_dependencies(store, node_failures=index)) as api:
            yield api
    finally:
        task.cancel()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with indexed() as running:
        yield running


def failed_on(*nodes: str, age: float = 60.0) -> Json:
    """An attempt of a Framework whose only task has failed on these nodes."""
    entry = {"completionTime": format_rfc3339(int(time.time() - age)), "exitCode": 7, "reason": "it exited"}
    history = [{**entry, "podNodeName": node} for node in nodes]
    tasks = [{"index": 0, "attemptHistory": history}]
    return {"taskRoleStatuses": [{"name": "worker", "taskStatuses": tasks}]}


async def add(api: Api, name: str, attempt: Json) -> None:
    obj = framework(name)
    obj["metadata"]["namespace"] = "default"
    created = await api.store.create(FRAMEWORKS, obj)
    await api.store.update_status(FRAMEWORKS, {**created, "status": {"attemptStatus": attempt}})


async def counts(api: Api) -> dict[str, int]:
    response = await api.get(PATH)
    assert response.status == 200, response.body
    return {item["nodeName"]: item["count"] for item in response.json()["items"]}


async def test_without_failures_there_are_no_nodes(api: Api) -> None:
    assert await counts(api) == {}


async def test_failures_are_counted_by_node_with_their_tasks(api: Api) -> None:
    await add(api, "first", failed_on("gpu-1", "gpu-2"))
    await add(api, "second", failed_on("gpu-1"))

    body = (await api.get(PATH)).json()

    assert (body["kind"], body["sinceSeconds"]) == ("NodeFailures", SINCE_SECONDS)
    assert [(item["nodeName"], item["count"]) for item in body["items"]] == [("gpu-1", 2), ("gpu-2", 1)]
    (latest,) = body["items"][1]["latest"]
    assert latest["completionTime"]
    assert {name: latest[name] for name in ("namespace", "framework", "role", "index", "exitCode")} == {
        "namespace": "default",
        "framework": "first",
        "role": "worker",
        "index": 0,
        "exitCode": 7,
    }


async def test_recorded_attempts_count_too(api: Api) -> None:
    labels = {"FC_FRAMEWORK_NAME": "mnist"}
    record = {
        "apiVersion": FRAMEWORK_ATTEMPTS.api_version,
        "kind": FRAMEWORK_ATTEMPTS.kind,
        "metadata": {"name": "mnist-attempt-1", "namespace": "default", "labels": labels},
        "attempt": 1,
        "attemptStatus": failed_on("gpu-1"),
    }
    await api.store.create(FRAMEWORK_ATTEMPTS, record)

    (item,) = (await api.get(PATH)).json()["items"]

    assert (item["nodeName"], item["latest"][0]["framework"]) == ("gpu-1", "mnist")


async def test_old_failures_are_left_out_and_only_the_latest_are_listed(api: Api) -> None:
    await add(api, "old", failed_on("gpu-1", age=SINCE_SECONDS + 60))
    await add(api, "many", failed_on(*["gpu-2"] * (MAX_LATEST + 5)))

    (item,) = (await api.get(PATH)).json()["items"]

    assert (item["nodeName"], item["count"], len(item["latest"])) == ("gpu-2", MAX_LATEST + 5, MAX_LATEST)


async def test_changes_are_observed(api: Api) -> None:
    assert await counts(api) == {}

    await add(api, "later", failed_on("gpu-1"))

    async def is_counted() -> bool:
        return await counts(api) == {"gpu-1": 1}

    await eventually(is_counted, "the failure is counted")
    await api.store.delete(FRAMEWORKS, "default", "later", DeleteOptions())

    async def is_gone() -> bool:
        return await counts(api) == {}

    await eventually(is_gone, "the deleted Framework does not count")


async def test_the_objects_are_listed_again_after_a_time_without_requests() -> None:
    async with indexed(idle_seconds=0.01) as api:
        await add(api, "first", failed_on("gpu-1"))
        index = api.parts.node_failures
        assert index is not None
        for _ in range(2):
            assert await counts(api) == {"gpu-1": 1}
            await eventually(lambda: not index.synced.is_set(), "the objects are no longer observed")
