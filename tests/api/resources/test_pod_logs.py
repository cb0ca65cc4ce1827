import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from launcher.api.http.status import set_error_target
from launcher.api.resources.pod_logs import PodLogHandler
from launcher.core.errors import BadRequest, NotFound
from launcher.core.pods.log_options import PodLogOptions
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.interface import PODS, MergePatch, Object
from tests.api.conftest import memory_store
from tests.api.servers import RunningServer, make_application, running
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS

NOW = 1_767_225_600.0
LOG = "/api/v1/namespaces/default/pods/a/log"


class RecordingLogs:
    """Fixed logs that record the options of each request."""

    def __init__(self) -> None:
        #: By pod, uid and container; uid None is the newest.
        self.kept: dict[tuple[str, str | None, str], list[bytes]] = {}
        self.requests: list[tuple[str, str, str | None, str, PodLogOptions]] = []
        self.more: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        return [container for name, owner, container in self.kept if (name, owner) == (pod, uid)]

    def last_written(self, namespace: str, pod: str, uid: str) -> float | None:
        return None

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, options: PodLogOptions
    ) -> AsyncIterator[bytes]:
        self.requests.append((namespace, pod, uid, container, options))
        lines = self.kept.get((pod, uid, container))
        if lines is None:
            raise NotFound(f"container {container} has no log")
        if options.previous and len(lines) < 2:
            raise BadRequest("there was no run before")
        try:
            for line in lines:
                yield line
            while options.follow and (line := await self.more.get()):
                yield line
        finally:
            self.closed.set()

    @property
    def view(self) -> PodLogOptions:
        ((*_, options),) = self.requests
        return options


class PodLogHarness:
    """A store, some logs, and a server that shows them."""

    def __init__(self, server: RunningServer, store: EmbeddedStore, logs: RecordingLogs) -> None:
        self.client, self.server, self.store, self.logs = server.client, server, store, logs

    async def pod(self, *containers: str, node: str = "here", **status: Any) -> str:
        """A pod named a with these containers; its uid."""
        made: Object = await self.store.create(
            PODS,
            a_pod(
                "a",
                *({"name": name} for name in containers or ("main",)),
                initContainers=[{"name": "setup"}],
                nodeName=node,
            ),
        )
        await self.store.patch(
            PODS, "default", "a", MergePatch({"status": {"phase": "Running", **status}}), subresource="status"
        )
        return str(made["metadata"]["uid"])

    async def running_pod(self, *lines: bytes) -> None:
        """Creates a pod with one running container and these lines."""
        uid = await self.pod(containerStatuses=[{"name": "main", "state": {"running": {}}}])
        self.logs.kept["a", uid, "main"] = list(lines)


@pytest.fixture
async def harness() -> AsyncIterator[PodLogHarness]:
    store, logs = memory_store(), RecordingLogs()
    app = make_application()
    handler = PodLogHandler(store, logs, lambda: NOW)

    async def get(request: web.Request) -> web.StreamResponse:
        """Calls the handler as ResourceHandler does."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        set_error_target(request, PODS, name)
        return await handler.get(request, namespace, name)

    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/log", get)
    async with running(app) as server:
        yield PodLogHarness(server, store, logs)


async def test_check_086_a_log_is_plain_text(harness: PodLogHarness) -> None:
    await harness.running_pod(b"one\n", b"\xfftwo")

    response = await harness.client.get(LOG, "application/vnd.kubernetes.protobuf")

    assert (response.status, response.body) == (200, b"one\n\xfftwo")
    assert response.headers["Content-Type"] == "text/plain"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("query", "view"),
    [
        pytest.param("", PodLogOptions(), id="nothing"),
        pytest.param("tailLines=2", PodLogOptions(tail_lines=2), id="tail"),
        pytest.param("tailLines=0", PodLogOptions(tail_lines=0), id="no lines at all"),
        pytest.param("limitBytes=10", PodLogOptions(limit_bytes=10), id="bytes"),
        pytest.param("timestamps=True", PodLogOptions(timestamps=True), id="times"),
        pytest.param("timestamps=false&follow=0", PodLogOptions(), id="switched off"),
        pytest.param("sinceSeconds=5", PodLogOptions(since=NOW - 5), id="seconds"),
        pytest.param("sinceTime=2026-01-01T00:00:00Z", PodLogOptions(since=NOW), id="a time"),
        pytest.param(
            "sinceTime=2026-01-01T01:00:00.5%2B01:00", PodLogOptions(since=NOW + 0.5), id="elsewhere"
        ),
        pytest.param(
            "sinceTime=2026-01-01T00:00:00.500000000Z", PodLogOptions(since=NOW + 0.5), id="nanoseconds"
        ),
        pytest.param(
            "pretty=true&insecureSkipTLSVerifyBackend=true&tailLines=", PodLogOptions(), id="no matter"
        ),
    ],
)
async def test_check_086_the_query_selects_a_part_of_the_log(
    harness: PodLogHarness, query: str, view: PodLogOptions
) -> None:
    await harness.running_pod(b"one\n")

    assert (await harness.client.get(f"{LOG}?{query}")).status == 200
    assert harness.logs.view == view


@pytest.mark.parametrize("query", ["follow=true", "follow=True&tailLines=1", "follow"])
async def test_check_086_a_followed_log_ends_with_the_container(harness: PodLogHarness, query: str) -> None:
    await harness.running_pod(b"one\n")
    async with asyncio.timeout(TIMEOUT_SECONDS), harness.server.connection() as (reader, writer):
        writer.write(f"GET {LOG}?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        await reader.readuntil(b"4\r\none\n\r\n")
        harness.logs.more.put_nowait(b"two\n")
        await reader.readuntil(b"4\r\ntwo\n\r\n")
        harness.logs.more.put_nowait(b"")

        assert await reader.read() == b"0\r\n\r\n"


async def test_a_followed_log_starts_before_the_first_line(harness: PodLogHarness) -> None:
    await harness.running_pod()
    async with harness.client.watch(f"{LOG}?follow=1") as stream:
        assert stream.headers["Content-Type"] == "text/plain"


async def test_reading_stops_when_the_client_disconnects(harness: PodLogHarness) -> None:
    await harness.running_pod()
    async with harness.client.watch(f"{LOG}?follow=1"):
        pass

    async with asyncio.timeout(TIMEOUT_SECONDS):
        await harness.logs.closed.wait()


async def test_check_087_one_of_several_containers_must_be_chosen(harness: PodLogHarness) -> None:
    uid = await harness.pod("web", "db", containerStatuses=[{"name": "db", "state": {"running": {}}}])
    harness.logs.kept["a", uid, "db"] = [b"hello\n"]

    reported = (await harness.client.get(LOG)).failure(400, "BadRequest")

    assert reported["message"] == (
        "a container name must be specified for pod a, choose one of: [web db] or one of the init containers: [setup]"
    )
    assert (await harness.client.get(f"{LOG}?container=db")).body == b"hello\n"


async def test_check_087_an_unknown_container_is_rejected(harness: PodLogHarness) -> None:
    await harness.pod("web", "db")

    reported = (await harness.client.get(f"{LOG}?container=x")).failure(400, "BadRequest")

    assert reported["message"] == "container x is not valid for pod a, choose one of: [web db setup]"


async def test_an_init_container_has_a_log(harness: PodLogHarness) -> None:
    uid = await harness.pod(initContainerStatuses=[{"name": "setup", "state": {"terminated": {}}}])
    harness.logs.kept["a", uid, "setup"] = [b"ready\n"]

    assert (await harness.client.get(f"{LOG}?container=setup")).body == b"ready\n"


@pytest.mark.parametrize("query", ["tailLines=-1", "limitBytes=0", "sinceSeconds=0", "stream=Stdout"])
async def test_check_088_invalid_log_options_are_rejected(harness: PodLogHarness, query: str) -> None:
    reported = (await harness.client.get(f"{LOG}?{query}")).failure(422, "Invalid")

    assert (reported["details"]["kind"], reported["details"]["name"]) == ("PodLogOptions", "a")
    (cause,) = reported["details"]["causes"]
    assert cause["field"] == query.partition("=")[0]


async def test_check_088_all_errors_of_log_options_are_reported_at_once(harness: PodLogHarness) -> None:
    query = "tailLines=-1&limitBytes=0&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z"

    reported = (await harness.client.get(f"{LOG}?{query}")).failure(422, "Invalid")

    assert [cause["field"] for cause in reported["details"]["causes"]] == [
        "tailLines",
        "limitBytes",
        "sinceSeconds",
    ]


@pytest.mark.parametrize(
    "query", ["tailLines=many", "sinceTime=yesterday", "sinceTime=2026-01-01T00:00:00", "limitBytes=1.5"]
)
async def test_malformed_log_options_are_rejected(harness: PodLogHarness, query: str) -> None:
    (await harness.client.get(f"{LOG}?{query}")).failure(400, "BadRequest")


async def test_a_pod_without_a_node_has_an_empty_log(harness: PodLogHarness) -> None:
    await harness.pod(node="")

    response = await harness.client.get(LOG)

    assert (response.status, response.body) == (204, b"")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        pytest.param({"waiting": {"reason": "CreateContainerError"}}, "CreateContainerError", id="a reason"),
        pytest.param({"waiting": {"reason": "X", "message": "no disk"}}, "no disk", id="a message"),
        pytest.param({}, "ContainerCreating", id="no status"),
    ],
)
async def test_the_log_of_a_waiting_container_is_an_error_with_the_reason(
    harness: PodLogHarness, state: Object, reason: str
) -> None:
    await harness.pod(containerStatuses=[{"name": "main", "state": state}])

    reported = (await harness.client.get(LOG)).failure(400, "BadRequest")

    assert reported["message"] == f'container "main" in pod "a" is waiting to start: {reason}'


async def test_between_two_runs_the_log_is_that_of_the_last_one(harness: PodLogHarness) -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    uid = await harness.pod(
        containerStatuses=[{"name": "main", "state": state, "lastState": {"terminated": {"exitCode": 1}}}]
    )
    harness.logs.kept["a", uid, "main"] = [b"crash\n"]

    assert (await harness.client.get(LOG)).body == b"crash\n"


async def test_the_log_of_the_previous_run_can_be_read(harness: PodLogHarness) -> None:
    uid = await harness.pod(
        containerStatuses=[
            {"name": "main", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}
        ]
    )
    harness.logs.kept["a", uid, "main"] = [b"one\n", b"two\n"]

    assert (await harness.client.get(f"{LOG}?previous=1")).status == 200
    assert harness.logs.view.previous


async def test_a_missing_previous_run_is_an_error(harness: PodLogHarness) -> None:
    await harness.running_pod(b"one\n")

    reported = (await harness.client.get(f"{LOG}?previous=true")).failure(400, "BadRequest")

    assert reported["message"] == 'previous terminated container "main" in pod "a" not found'
    assert harness.logs.requests == []


async def test_the_log_of_an_unknown_pod_is_not_found(harness: PodLogHarness) -> None:
    reported = (await harness.client.get(LOG)).failure(404, "NotFound")

    assert reported["message"] == 'pods "a" not found'
    assert reported["details"] == {"name": "a", "kind": "pods"}


async def test_the_log_of_a_deleted_pod_can_be_read(harness: PodLogHarness) -> None:
    harness.logs.kept["a", None, "main"] = [b"last words\n"]

    assert (await harness.client.get(f"{LOG}?follow=1&tailLines=3")).status == 200
    assert harness.logs.requests[0][:4] == ("default", "a", None, "main")


async def test_one_of_several_containers_of_a_deleted_pod_must_be_chosen(harness: PodLogHarness) -> None:
    harness.logs.kept |= {("a", None, "web"): [], ("a", None, "db"): [b"x\n"]}

    reported = (await harness.client.get(LOG)).failure(400, "BadRequest")
    assert "choose one of: [web db]" in reported["message"]
    (await harness.client.get(f"{LOG}?container=c")).failure(400, "BadRequest")
    assert (await harness.client.get(f"{LOG}?container=db")).body == b"x\n"


async def test_errors_of_the_log_reader_are_returned(harness: PodLogHarness) -> None:
    harness.logs.kept["a", None, "main"] = [b"only\n"]

    (await harness.client.get(f"{LOG}?previous=1")).failure(400, "BadRequest")


async def test_an_earlier_pod_of_that_name_is_found_by_its_uid(harness: PodLogHarness) -> None:
    await harness.running_pod(b"now\n")
    harness.logs.kept["a", "earlier", "main"] = [b"then\n"]

    assert (await harness.client.get(f"{LOG}?uid=earlier")).body == b"then\n"
    assert (await harness.client.get(LOG)).body == b"now\n"
    (await harness.client.get(f"{LOG}?uid=never")).failure(404, "NotFound")


async def test_a_log_can_be_requested_with_head(harness: PodLogHarness) -> None:
    await harness.running_pod(b"one\n")

    for query in ("", "?follow=1"):
        response = await harness.client.call("HEAD", f"{LOG}{query}")

        assert (response.status, response.body) == (200, b"")
    assert harness.logs.closed.is_set()
