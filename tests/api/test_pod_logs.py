import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from launcher.api.resources.pod_logs import PodLogHandler
from launcher.core.errors import BadRequest, NotFound
from launcher.core.pods.log_options import PodLogOptions
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.interface import PODS, MergePatch, Object
from tests.api.around import Running, application, running
from tests.api.client import PATIENCE
from tests.api.conftest import memory_store

NOW = 1_767_225_600.0
LOG = "/api/v1/namespaces/default/pods/a/log"


class FakeLogs:
    """Logs in memory, that note what was asked of them."""

    def __init__(self) -> None:
        #: By pod, uid and container; uid None is the newest.
        self.kept: dict[tuple[str, str | None, str], list[bytes]] = {}
        self.asked: list[tuple[str, str, str | None, str, PodLogOptions]] = []
        self.more: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        return [container for name, whose, container in self.kept if (name, whose) == (pod, uid)]

    def uid_before(self, namespace: str, pod: str, uid: str | None) -> str | None:
        uids = [whose for name, whose, _ in self.kept if name == pod]
        return uids[uids.index(uid) - 1] if uid in uids[1:] else None

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, view: PodLogOptions
    ) -> AsyncIterator[bytes]:
        self.asked.append((namespace, pod, uid, container, view))
        lines = self.kept.get((pod, uid, container))
        if lines is None:
            raise NotFound(f"container {container} has no log")
        if view.previous and len(lines) < 2:
            raise BadRequest("there was no run before")
        try:
            for line in lines:
                yield line
            while view.follow and (line := await self.more.get()):
                yield line
        finally:
            self.closed.set()

    @property
    def view(self) -> PodLogOptions:
        ((*_, view),) = self.asked
        return view


class World:
    """A store, some logs, and a server that shows them."""

    def __init__(self, server: Running, store: EmbeddedStore, logs: FakeLogs) -> None:
        self.client, self.server, self.store, self.logs = server.client, server, store, logs

    async def pod(self, *containers: str, node: str = "here", **status: Any) -> str:
        """A pod named a with these containers; its uid."""
        made: Object = await self.store.create(PODS, a_pod(containers or ("main",), node))
        await self.store.patch(
            PODS, "default", "a", MergePatch({"status": {"phase": "Running", **status}}), subresource="status"
        )
        return str(made["metadata"]["uid"])

    async def running_pod(self, *lines: bytes) -> None:
        """A pod whose only container runs and has written these."""
        uid = await self.pod(containerStatuses=[{"name": "main", "state": {"running": {}}}])
        self.logs.kept["a", uid, "main"] = list(lines)


def a_pod(containers: Sequence[str], node: str) -> Object:
    spec = {"containers": [{"name": name} for name in containers], "initContainers": [{"name": "setup"}]}
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "nodeName": node}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store, logs = memory_store(), FakeLogs()
    app = application()
    handler = PodLogHandler(store, logs, lambda: NOW)
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/log", handler.get)
    async with running(app) as server:
        yield World(server, store, logs)


async def test_check_086_a_log_is_plain_text_as_it_was_written(world: World) -> None:
    await world.running_pod(b"one\n", b"\xfftwo")

    answer = await world.client.get(LOG, "application/vnd.kubernetes.protobuf")

    assert (answer.status, answer.body) == (200, b"one\n\xfftwo")
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


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
async def test_check_086_the_query_says_which_part(world: World, query: str, view: PodLogOptions) -> None:
    await world.running_pod(b"one\n")

    assert (await world.client.get(f"{LOG}?{query}")).status == 200
    assert world.logs.view == view


@pytest.mark.parametrize("query", ["follow=true", "follow=True&tailLines=1", "follow"])
async def test_check_086_lines_are_shown_as_they_come_until_the_container_ends(
    world: World, query: str
) -> None:
    await world.running_pod(b"one\n")
    async with asyncio.timeout(PATIENCE), world.server.connection() as (reader, writer):
        writer.write(f"GET {LOG}?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        await reader.readuntil(b"4\r\none\n\r\n")
        world.logs.more.put_nowait(b"two\n")
        await reader.readuntil(b"4\r\ntwo\n\r\n")
        world.logs.more.put_nowait(b"")

        assert await reader.read() == b"0\r\n\r\n"


async def test_the_answer_begins_before_a_quiet_container_has_written_anything(world: World) -> None:
    await world.running_pod()
    async with world.client.watch(f"{LOG}?follow=1") as stream:
        assert stream.headers["Content-Type"] == "text/plain"


async def test_nobody_reads_on_when_the_client_has_gone(world: World) -> None:
    await world.running_pod()
    async with world.client.watch(f"{LOG}?follow=1"):
        pass

    async with asyncio.timeout(PATIENCE):
        await world.logs.closed.wait()


async def test_check_087_with_several_containers_one_must_be_chosen(world: World) -> None:
    uid = await world.pod("web", "db", containerStatuses=[{"name": "db", "state": {"running": {}}}])
    world.logs.kept["a", uid, "db"] = [b"hello\n"]

    told = (await world.client.get(LOG)).refused(400, "BadRequest")

    assert told["message"] == (
        "a container name must be specified for pod a, choose one of: [web db] or one of the init containers: [setup]"
    )
    assert (await world.client.get(f"{LOG}?container=db")).body == b"hello\n"


async def test_check_087_a_container_that_there_is_not_is_refused(world: World) -> None:
    await world.pod("web", "db")

    told = (await world.client.get(f"{LOG}?container=x")).refused(400, "BadRequest")

    assert told["message"] == "container x is not valid for pod a, choose one of: [web db setup]"


async def test_an_init_container_has_a_log_too(world: World) -> None:
    uid = await world.pod(initContainerStatuses=[{"name": "setup", "state": {"terminated": {}}}])
    world.logs.kept["a", uid, "setup"] = [b"ready\n"]

    assert (await world.client.get(f"{LOG}?container=setup")).body == b"ready\n"


@pytest.mark.parametrize("query", ["tailLines=-1", "limitBytes=0", "sinceSeconds=0", "stream=Stdout"])
async def test_check_088_what_cannot_be_done_is_refused(world: World, query: str) -> None:
    told = (await world.client.get(f"{LOG}?{query}")).refused(422, "Invalid")

    assert (told["details"]["kind"], told["details"]["name"]) == ("PodLogOptions", "a")
    (cause,) = told["details"]["causes"]
    assert cause["field"] == query.partition("=")[0]


async def test_check_088_everything_is_told_at_once(world: World) -> None:
    query = "tailLines=-1&limitBytes=0&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z"

    told = (await world.client.get(f"{LOG}?{query}")).refused(422, "Invalid")

    assert [cause["field"] for cause in told["details"]["causes"]] == [
        "tailLines",
        "limitBytes",
        "sinceSeconds",
    ]


@pytest.mark.parametrize(
    "query", ["tailLines=many", "sinceTime=yesterday", "sinceTime=2026-01-01T00:00:00", "limitBytes=1.5"]
)
async def test_what_cannot_be_read_is_refused(world: World, query: str) -> None:
    (await world.client.get(f"{LOG}?{query}")).refused(400, "BadRequest")


async def test_a_pod_without_a_node_has_nothing_to_show_yet(world: World) -> None:
    await world.pod(node="")

    answer = await world.client.get(LOG)

    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        pytest.param({"waiting": {"reason": "CreateContainerError"}}, "CreateContainerError", id="a reason"),
        pytest.param({"waiting": {"reason": "X", "message": "no disk"}}, "no disk", id="a message"),
        pytest.param({}, "ContainerCreating", id="nothing known yet"),
    ],
)
async def test_a_container_that_waits_to_start_says_why(world: World, state: Object, why: str) -> None:
    await world.pod(containerStatuses=[{"name": "main", "state": state}])

    told = (await world.client.get(LOG)).refused(400, "BadRequest")

    assert told["message"] == f'container "main" in pod "a" is waiting to start: {why}'


async def test_between_two_runs_the_last_one_is_shown(world: World) -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    uid = await world.pod(
        containerStatuses=[{"name": "main", "state": state, "lastState": {"terminated": {"exitCode": 1}}}]
    )
    world.logs.kept["a", uid, "main"] = [b"crash\n"]

    assert (await world.client.get(LOG)).body == b"crash\n"


async def test_the_run_before_can_be_shown(world: World) -> None:
    uid = await world.pod(
        containerStatuses=[
            {"name": "main", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}
        ]
    )
    world.logs.kept["a", uid, "main"] = [b"one\n", b"two\n"]

    assert (await world.client.get(f"{LOG}?previous=1")).status == 200
    assert world.logs.view.previous


async def test_where_there_was_no_run_before_that_is_told(world: World) -> None:
    await world.running_pod(b"one\n")

    told = (await world.client.get(f"{LOG}?previous=true")).refused(400, "BadRequest")

    assert told["message"] == 'previous terminated container "main" in pod "a" not found'
    assert world.logs.asked == []


async def test_a_pod_that_never_was_is_not_found(world: World) -> None:
    told = (await world.client.get(LOG)).refused(404, "NotFound")

    assert told["message"] == 'pods "a" not found'
    assert told["details"] == {"name": "a", "kind": "pods"}


async def test_the_log_of_a_pod_that_is_gone_is_still_there(world: World) -> None:
    world.logs.kept["a", None, "main"] = [b"last words\n"]

    assert (await world.client.get(f"{LOG}?follow=1&tailLines=3")).status == 200
    assert world.logs.asked[0][:4] == ("default", "a", None, "main")


async def test_of_a_pod_that_is_gone_one_container_must_be_chosen_as_well(world: World) -> None:
    world.logs.kept |= {("a", None, "web"): [], ("a", None, "db"): [b"x\n"]}

    told = (await world.client.get(LOG)).refused(400, "BadRequest")
    assert "choose one of: [web db]" in told["message"]
    (await world.client.get(f"{LOG}?container=c")).refused(400, "BadRequest")
    assert (await world.client.get(f"{LOG}?container=db")).body == b"x\n"


async def test_what_the_logs_refuse_is_refused(world: World) -> None:
    world.logs.kept["a", None, "main"] = [b"only\n"]

    (await world.client.get(f"{LOG}?previous=1")).refused(400, "BadRequest")


async def test_an_earlier_pod_of_that_name_is_found_by_its_uid(world: World) -> None:
    await world.running_pod(b"now\n")
    world.logs.kept["a", "earlier", "main"] = [b"then\n"]

    assert (await world.client.get(f"{LOG}?uid=earlier")).body == b"then\n"
    assert (await world.client.get(LOG)).body == b"now\n"
    (await world.client.get(f"{LOG}?uid=never")).refused(404, "NotFound")


async def test_only_the_head_can_be_asked_for(world: World) -> None:
    await world.running_pod(b"one\n")

    for query in ("", "?follow=1"):
        answer = await world.client.call("HEAD", f"{LOG}{query}")

        assert (answer.status, answer.body) == (200, b"")
    assert world.logs.closed.is_set()
