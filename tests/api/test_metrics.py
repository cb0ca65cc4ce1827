import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from launcher.api.middleware.metrics import Metrics
from launcher.core.errors import NotFound
from launcher.store.interface import CONFIG_MAPS, FRAMEWORKS, PODS, MergePatch, Object, ResourceKind
from tests.api.around import Running, application, running
from tests.api.client import PATIENCE, Client
from tests.api.conftest import memory_store

PATH = "/api/v1/namespaces/default/pods"
_LINE = re.compile(r"(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+=\"[^\"\\\n]*\",?)*\})? [0-9.e+-]+)")


async def samples(client: Client) -> dict[str, float]:
    """What ``/metrics`` says, by name and labels as written. Every line must be one that Prometheus can read."""
    answer = await client.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    for line in answer.body.decode().splitlines():
        assert _LINE.fullmatch(line), line
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def measured(metrics: Metrics, clock: Clock) -> web.Application:
    """Pods that take a fifth of a second to list, and of which one is missing."""

    async def pods(request: web.Request) -> web.StreamResponse:
        clock.now += 0.2
        return web.Response(text="[]")

    async def missing(request: web.Request) -> web.StreamResponse:
        raise NotFound("pods not found")

    app = application(outer=(metrics.middleware,))
    app.router.add_get("/metrics", metrics.expose)
    app.router.add_get(PATH, pods)
    app.router.add_get(f"{PATH}/a", missing)
    return app


@asynccontextmanager
async def counted(clock: Clock) -> AsyncIterator[Client]:
    async with running(measured(Metrics(memory_store(), clock), clock)) as server:
        yield server.client


async def test_requests_are_counted_by_verb_resource_and_code() -> None:
    async with counted(Clock()) as client:
        await client.get(PATH)
        await client.get(PATH)
        await client.get(f"{PATH}/a")
        found = await samples(client)

    total = "launcher_http_requests_total"
    assert found[f'{total}{{verb="list",resource="pods",subresource="",code="200"}}'] == 2
    assert found[f'{total}{{verb="get",resource="pods",subresource="",code="404"}}'] == 1


async def test_times_fall_into_growing_buckets() -> None:
    async with counted(Clock()) as client:
        await client.get(PATH)
        found = await samples(client)

    name, labels = "launcher_http_request_duration_seconds", 'verb="list",resource="pods"'
    assert found[f'{name}_bucket{{{labels},le="0.1"}}'] == 0
    assert found[f'{name}_bucket{{{labels},le="0.25"}}'] == 1
    assert found[f'{name}_bucket{{{labels},le="+Inf"}}'] == 1
    assert found[f"{name}_count{{{labels}}}"] == 1
    assert found[f"{name}_sum{{{labels}}}"] == pytest.approx(0.2)


async def test_clients_cannot_make_up_labels() -> None:
    async with counted(Clock()) as client:
        for path in ("/nowhere", "/api/v1/made-up", f"{PATH}/a/made-up", "/apis/made.up/v1/pods"):
            await client.get(path)
        await client.call("BREW", PATH)
        found = await samples(client)

    assert not [name for name in found if "made" in name or "BREW" in name or "nowhere" in name]
    total = "launcher_http_requests_total"
    assert found[f'{total}{{verb="get",resource="",subresource="",code="404"}}'] == 3


class Stage:
    """A request that stays under way."""

    def __init__(self) -> None:
        self.reached, self.leave = asyncio.Event(), asyncio.Event()

    async def enter(self, request: web.Request) -> web.StreamResponse:
        self.reached.set()
        await self.leave.wait()
        return web.Response()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (PATH, 'launcher_http_requests_in_flight{kind="read"}'),
        (f"{PATH}?watch=true", 'launcher_watchers{resource="pods"}'),
    ],
)
async def test_what_is_under_way_is_shown(path: str, name: str) -> None:
    stage, metrics = Stage(), Metrics(memory_store())
    app = application(outer=(metrics.middleware,))
    app.router.add_get("/metrics", metrics.expose)
    app.router.add_get(PATH, stage.enter)
    async with running(app) as server, asyncio.TaskGroup() as tasks:
        before = (await samples(server.client))[name]
        asked = tasks.create_task(server.client.get(path))
        await stage.reached.wait()
        during = (await samples(server.client))[name]
        stage.leave.set()
        await asked
        done = await samples(server.client)

    assert during - before == 1
    assert any("_bucket" in key and 'resource="pods"' in key for key in done) is (path == PATH)


async def test_a_client_that_leaves_is_counted_as_such() -> None:
    stage, metrics = Stage(), Metrics(memory_store())
    app = application(outer=(metrics.middleware,))
    app.router.add_get("/metrics", metrics.expose)
    app.router.add_get(PATH, stage.enter)
    name = 'launcher_http_requests_total{verb="list",resource="pods",subresource="",code="499"}'
    async with running(app) as server:
        async with server.connection() as (_, writer):
            writer.write(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await stage.reached.wait()

        assert await eventually(server, name, 1)


async def eventually(server: Running, name: str, value: float) -> bool:
    """Whether the number gets there while there is patience."""
    async with asyncio.timeout(PATIENCE):
        while (await samples(server.client)).get(name) != value:
            pass  # each look is a request, so everything else gets its turn
    return True


def an_object(kind: ResourceKind, name: str, **status: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}


async def test_objects_are_counted_as_they_come_change_and_go() -> None:
    store = memory_store()
    metrics = Metrics(store)
    for kind, name in ((FRAMEWORKS, "a"), (PODS, "p"), (PODS, "q"), (CONFIG_MAPS, "c")):
        await store.create(kind, an_object(kind, name))
    async with running(measured(metrics, Clock())) as server:
        task = asyncio.create_task(metrics.run())
        try:
            assert await eventually(server, 'launcher_store_objects{resource="pods"}', 2)
            await store.patch(
                PODS, "default", "p", MergePatch({"status": {"phase": "Running"}}), subresource="status"
            )
            status = MergePatch({"status": {"state": "AttemptRunning"}})
            await store.patch(FRAMEWORKS, "default", "a", status, subresource="status")
            await store.delete(CONFIG_MAPS, "default", "c")
            assert await eventually(server, 'launcher_store_objects{resource="configmaps"}', 0)
            assert await eventually(server, 'launcher_pods{phase="Running"}', 1)
            assert await eventually(server, 'launcher_frameworks{state="AttemptRunning"}', 1)
            found = await samples(server.client)
        finally:
            task.cancel()

    assert found['launcher_pods{phase="Pending"}'] == 1
    assert found['launcher_frameworks{state="AttemptCreationPending"}'] == 0
    assert found['launcher_store_objects{resource="frameworks"}'] == 1


async def test_a_state_that_somebody_made_up_is_unknown() -> None:
    store = memory_store()
    metrics = Metrics(store)
    await store.create(PODS, an_object(PODS, "p"))
    made_up = MergePatch({"status": {"phase": 'x"} 1\nfake 2'}})
    await store.patch(PODS, "default", "p", made_up, subresource="status")
    async with running(measured(metrics, Clock())) as server:
        task = asyncio.create_task(metrics.run())
        try:
            assert await eventually(server, 'launcher_pods{phase="Unknown"}', 1)
        finally:
            task.cancel()


async def test_the_process_shows_what_it_uses() -> None:
    async with counted(Clock()) as client:
        found = await samples(client)

    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_open_fds"] > 2
    assert found["process_start_time_seconds"] > 1_600_000_000
