import asyncio
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version as installed_version

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from launcher.api.middleware.metrics import Metrics
from launcher.core.errors import NotFound
from launcher.store import instrumentation
from launcher.store.informer import SharedInformers
from launcher.store.interface import CONFIG_MAPS, FRAMEWORKS, PODS, MergePatch, Object, ResourceKind
from launcher.store.work_queue import WorkQueue
from tests.api.client import Client
from tests.api.conftest import memory_store
from tests.api.servers import RunningServer, make_application, running
from tests.eventually import TIMEOUT_SECONDS, eventually

PATH = "/api/v1/namespaces/default/pods"


async def samples(client: Client) -> dict[str, float]:
    """Returns the samples of ``/metrics`` by name and sorted labels."""
    response = await client.get("/metrics")
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(response.body.decode())
    return {
        sample_name(sample.name, **sample.labels): sample.value
        for family in families
        for sample in family.samples
    }


def sample_name(name: str, /, **labels: str) -> str:
    inside = ",".join(f'{label}="{labels[label]}"' for label in sorted(labels))
    return f"{name}{{{inside}}}" if inside else name


class RequestClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def measured(metrics: Metrics, clock: RequestClock) -> web.Application:
    """Pods that take a fifth of a second to list, and of which one is missing."""

    async def pods(request: web.Request) -> web.StreamResponse:
        clock.now += 0.2
        return web.Response(text="[]")

    async def missing(request: web.Request) -> web.StreamResponse:
        raise NotFound("pods not found")

    app = make_application(outer=(metrics.middleware,))
    app.router.add_get("/metrics", metrics.expose)
    app.router.add_get(PATH, pods)
    app.router.add_get(f"{PATH}/a", missing)
    return app


@asynccontextmanager
async def counted(clock: RequestClock) -> AsyncIterator[Client]:
    async with running(measured(Metrics(SharedInformers(memory_store()), clock), clock)) as server:
        yield server.client


async def test_requests_are_counted_by_verb_resource_and_code() -> None:
    async with counted(RequestClock()) as client:
        await client.get(PATH)
        await client.get(PATH)
        await client.get(f"{PATH}/a")
        found = await samples(client)

    total = "launcher_http_requests_total"
    assert found[sample_name(total, verb="list", resource="pods", subresource="", code="200")] == 2
    assert found[sample_name(total, verb="get", resource="pods", subresource="", code="404")] == 1


async def test_durations_are_counted_in_cumulative_buckets() -> None:
    async with counted(RequestClock()) as client:
        await client.get(PATH)
        found = await samples(client)

    name, labels = "launcher_http_request_duration_seconds", {"verb": "list", "resource": "pods"}
    assert found[sample_name(f"{name}_bucket", **labels, le="0.1")] == 0
    assert found[sample_name(f"{name}_bucket", **labels, le="0.25")] == 1
    assert found[sample_name(f"{name}_bucket", **labels, le="+Inf")] == 1
    assert found[sample_name(f"{name}_count", **labels)] == 1
    assert found[sample_name(f"{name}_sum", **labels)] == pytest.approx(0.2)


async def test_labels_do_not_contain_client_input() -> None:
    async with counted(RequestClock()) as client:
        for path in ("/nowhere", "/api/v1/made-up", f"{PATH}/a/made-up", "/apis/made.up/v1/pods"):
            await client.get(path)
        await client.call("BREW", PATH)
        found = await samples(client)

    assert not [name for name in found if "made" in name or "BREW" in name or "nowhere" in name]
    total = "launcher_http_requests_total"
    assert found[sample_name(total, verb="get", resource="", subresource="", code="404")] == 3


class BlockingHandler:
    """A handler that blocks until it is released."""

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
async def test_requests_in_flight_are_shown(path: str, name: str) -> None:
    blocking, metrics = BlockingHandler(), Metrics(SharedInformers(memory_store()))
    app = make_application(outer=(metrics.middleware,))
    app.router.add_get("/metrics", metrics.expose)
    app.router.add_get(PATH, blocking.enter)
    async with running(app) as server, asyncio.TaskGroup() as tasks:
        before = (await samples(server.client))[name]
        request = tasks.create_task(server.client.get(path))
        await blocking.reached.wait()
        during = (await samples(server.client))[name]
        blocking.leave.set()
        await request
        done = await samples(server.client)

    assert during - before == 1
    assert any("_bucket" in key and 'resource="pods"' in key for key in done) is (path == PATH)


async def test_a_disconnected_client_is_counted_with_code_499() -> None:
    blocking, metrics = BlockingHandler(), Metrics(SharedInformers(memory_store()))
    app = make_application(outer=(metrics.middleware,))
    app.router.add_get("/metrics", metrics.expose)
    app.router.add_get(PATH, blocking.enter)
    name = sample_name(
        "launcher_http_requests_total", verb="list", resource="pods", subresource="", code="499"
    )
    async with running(app) as server:
        async with server.connection() as (_, writer):
            writer.write(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await blocking.reached.wait()

        await wait_for_sample(server, name, 1)


async def wait_for_sample(server: RunningServer, name: str, value: float) -> None:
    async def has_value() -> bool:
        return (await samples(server.client)).get(name) == value

    await eventually(has_value, f"{name} is {value}")


def an_object(kind: ResourceKind, name: str, **status: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}


async def test_created_changed_and_deleted_objects_are_counted() -> None:
    store = memory_store()
    informers = SharedInformers(store)
    metrics = Metrics(informers)
    for kind, name in ((FRAMEWORKS, "a"), (PODS, "p"), (PODS, "q"), (CONFIG_MAPS, "c")):
        await store.create(kind, an_object(kind, name))
    async with running(measured(metrics, RequestClock())) as server:
        task = asyncio.create_task(informers.run())
        try:
            await wait_for_sample(server, 'launcher_store_objects{resource="pods"}', 2)
            await store.patch(
                PODS, "default", "p", MergePatch({"status": {"phase": "Running"}}), subresource="status"
            )
            status = MergePatch({"status": {"state": "AttemptRunning"}})
            await store.patch(FRAMEWORKS, "default", "a", status, subresource="status")
            await store.delete(CONFIG_MAPS, "default", "c")
            await wait_for_sample(server, 'launcher_store_objects{resource="configmaps"}', 0)
            await wait_for_sample(server, 'launcher_pods{phase="Running"}', 1)
            await wait_for_sample(server, 'launcher_frameworks{state="AttemptRunning"}', 1)
            found = await samples(server.client)
        finally:
            task.cancel()

    assert found['launcher_pods{phase="Pending"}'] == 1
    assert found['launcher_frameworks{state="AttemptCreationPending"}'] == 0
    assert found['launcher_store_objects{resource="frameworks"}'] == 1


async def test_an_undefined_state_is_counted_as_unknown() -> None:
    store = memory_store()
    informers = SharedInformers(store)
    metrics = Metrics(informers)
    await store.create(PODS, an_object(PODS, "p"))
    made_up = MergePatch({"status": {"phase": 'x"} 1\nfake 2'}})
    await store.patch(PODS, "default", "p", made_up, subresource="status")
    async with running(measured(metrics, RequestClock())) as server:
        task = asyncio.create_task(informers.run())
        try:
            await wait_for_sample(server, 'launcher_pods{phase="Unknown"}', 1)
        finally:
            task.cancel()


async def test_process_metrics_are_shown() -> None:
    async with counted(RequestClock()) as client:
        found = await samples(client)

    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_open_fds"] > 2
    assert found["process_start_time_seconds"] > 1_600_000_000


@asynccontextmanager
async def observing() -> AsyncIterator[Client]:
    """A server whose metrics observe the runtime."""
    metrics = Metrics()
    app = measured(metrics, RequestClock())
    app.cleanup_ctx.append(metrics.observe_runtime)
    async with running(app) as server:
        yield server.client


async def test_the_depth_of_work_queues_is_shown_by_name() -> None:
    queue: WorkQueue[str] = WorkQueue("metrics-test")
    queue.add("a")

    async with observing() as client:
        found = await samples(client)

    assert found['workqueue_depth{name="metrics-test"}'] == 1


async def test_reconciles_are_measured_by_controller() -> None:
    async with observing() as client:
        instrumentation.reconcile_completed("framework", 0.2)
        found = await samples(client)

    name = "controller_runtime_reconcile_time_seconds"
    assert found[f'{name}_count{{controller="framework"}}'] == 1
    assert found[f'{name}_bucket{{controller="framework",le="0.1"}}'] == 0
    assert found[f'{name}_bucket{{controller="framework",le="0.25"}}'] == 1


async def test_retries_are_counted_by_queue_and_reason() -> None:
    async with observing() as client:
        instrumentation.reconcile_retried("framework", "Conflict")
        found = await samples(client)

    assert found['workqueue_retries_total{name="framework",reason="Conflict"}'] == 1


async def test_restarts_of_watches_are_counted_by_resource_and_reason() -> None:
    async with observing() as client:
        instrumentation.watch_restarted("pods", "Expired")
        found = await samples(client)

    assert found['reflector_watch_restarts_total{reason="Expired",resource="pods"}'] == 1


async def test_requests_to_the_api_server_are_measured_by_verb() -> None:
    async with observing() as client:
        instrumentation.request_completed("GET", 0.01)
        found = await samples(client)

    assert found['rest_client_request_duration_seconds_count{verb="GET"}'] == 1


async def test_the_lag_of_the_event_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launcher.api.middleware.metrics._LAG_INTERVAL_SECONDS", 0.001)

    async with observing() as client, asyncio.timeout(TIMEOUT_SECONDS):
        while (await samples(client))["launcher_event_loop_lag_seconds_count"] < 2:
            pass


async def test_the_versions_of_the_launcher_and_of_python_are_shown() -> None:
    async with observing() as client:
        found = await samples(client)

    version = installed_version("framework-launcher")
    name = sample_name("launcher_build_info", version=version, python_version=platform.python_version())
    assert found[name] == 1


async def test_measurements_are_not_recorded_after_the_server_has_stopped() -> None:
    metrics = Metrics()
    app = measured(metrics, RequestClock())
    app.cleanup_ctx.append(metrics.observe_runtime)
    async with running(app):
        pass

    instrumentation.reconcile_retried("framework", "Conflict")

    async with running(measured(metrics, RequestClock())) as server:
        assert not [
            name for name in await samples(server.client) if name.startswith("workqueue_retries_total{")
        ]


async def test_no_two_samples_have_the_same_labels() -> None:
    async with counted(RequestClock()) as client:
        body = (await client.get("/metrics")).body.decode()

    names = [line.rpartition(" ")[0] for line in body.splitlines() if not line.startswith("#")]
    assert len(names) == len(set(names))
