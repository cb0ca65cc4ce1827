"""``pods/exec`` and ``pods/attach`` over real WebSockets, with real processes."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
import pytest
from aiohttp import WSMsgType

from launcher.node.agent.container_exec import ContainerExec
from launcher.node.container_runtime import RunId
from launcher.node.pods.pod_spec import run_id
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.store.interface import PODS, MergePatch
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.in_memory_logs import InMemoryLogs
from tests.node.runtimes import a_config, a_runtime, pids_matching

EXEC = "/api/v1/namespaces/default/pods/a/exec"
ATTACH = "/api/v1/namespaces/default/pods/a/attach"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
SUCCESS = {"metadata": {}, "status": "Success"}


class ExecClient:
    """The client's side of a session: sends input, and collects the output of each channel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.channels: dict[int, bytes] = {}

    async def send(self, channel: int, data: bytes) -> None:
        await self.socket.send_bytes(bytes([channel]) + data)

    async def until(self, text: bytes, channel: int = 1) -> None:
        """Waits until *text* is in the output."""
        while text not in self.channels.get(channel, b""):
            assert await self._receive(), self.channels

    async def end(self) -> Any:
        """Waits until the server closes the connection, and returns the Status."""
        while await self._receive():
            pass
        return orjson.loads(self.channels[3])

    def abort(self) -> None:
        """Closes the connection as a killed client does."""
        connection = self.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()

    async def _receive(self) -> bool:
        message = await self.socket.receive(TIMEOUT_SECONDS)
        if message.type is not WSMsgType.BINARY:
            return False
        channel = message.data[0]
        self.channels[channel] = self.channels.get(channel, b"") + message.data[1:]
        return True


class ExecHarness:
    """A server with one pod, whose container is a real process."""

    def __init__(self, api: Api, runtime: ProcessRuntime, data: Path) -> None:
        self.api, self.runtime, self._data = api, runtime, data

    async def create_pod(self, *containers: str, name: str = "a", state: str = "running") -> str:
        """Creates a pod, and returns its uid."""
        names = containers or ("main",)
        pod = await self.api.store.create(
            PODS, a_pod(name, *({"name": each} for each in names), nodeName="here")
        )
        statuses = [{"name": each, "state": {state: {"reason": "Completed"}}} for each in names]
        change = MergePatch({"status": {"phase": "Running", "containerStatuses": statuses}})
        await self.api.store.patch(PODS, "default", name, change, subresource="status")
        return str(pod["metadata"]["uid"])

    async def run_pod(self, name: str = "a") -> RunId:
        """A pod with a running process. Returns the id of its run."""
        run = run_id(await self.create_pod(name=name), "main", 0)
        await self.runtime.start_container(
            a_config(
                self._data, "sleep", "600", run=run, environment={"PATH": "/usr/bin:/bin", "MINE": "yes"}
            )
        )
        return run

    @asynccontextmanager
    async def session(self, *command: str, protocol: str = V5, **flags: str) -> AsyncIterator[ExecClient]:
        query = [*(("command", word) for word in command), *{"stdout": "1", "stderr": "1", **flags}.items()]
        async with self.connection(f"{EXEC}?{urlencode(query)}", protocol) as client:
            yield client

    @asynccontextmanager
    async def connection(self, path: str, protocol: str = V5) -> AsyncIterator[ExecClient]:
        """A WebSocket."""
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            self.api.session.ws_connect(f"{self.api.url}{path}", protocols=[protocol]) as socket,
        ):
            assert socket.protocol == protocol
            yield ExecClient(socket)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ExecHarness]:
    async with (
        a_runtime(tmp_path) as runtime,
        serving(api_dependencies(memory_store(), exec_sessions=ContainerExec(runtime))) as api,
    ):
        yield ExecHarness(api, runtime, tmp_path)


@pytest.mark.parametrize("protocol", [V4, V5])
async def test_a_command_returns_its_output_on_channels_and_its_exit_code(
    harness: ExecHarness, protocol: str
) -> None:
    await harness.run_pod()

    async with harness.session("sh", "-c", 'echo "$MINE"; echo bad >&2; exit 7', protocol=protocol) as client:
        status = await client.end()

    assert client.channels[1] == b"yes\n"
    assert client.channels[2] == b"bad\n"
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
    assert client.socket.close_code == 1000


async def test_input_is_passed_on_until_the_client_closes_its_channel(harness: ExecHarness) -> None:
    await harness.run_pod()

    async with harness.session("cat", stdin="true") as client:
        await client.send(0, b"hello\n")
        await client.until(b"hello\n")
        # Some clients send text.
        await client.socket.send_str("\0world\n")
        await client.send(255, b"\0")

        assert await client.end() == SUCCESS
    assert client.channels[1] == b"hello\nworld\n"


async def test_large_input_and_output_wait_for_each_other(harness: ExecHarness) -> None:
    await harness.run_pod()
    chunk, chunks = b"x" * 100_000, 100

    async def send(client: ExecClient) -> None:
        for _ in range(chunks):
            await client.send(0, chunk)
        await client.send(255, b"\0")

    async with harness.session("cat", stdin="true") as client:
        sending = asyncio.create_task(send(client))
        assert await client.end() == SUCCESS
        await sending

    assert len(client.channels[1]) == len(chunk) * chunks


async def test_a_command_with_a_terminal_knows_its_size(harness: ExecHarness) -> None:
    await harness.run_pod()

    async with harness.session("sh", stdin="true", tty="true") as client:
        for size in (b"no size", b'{"Width":0,"Height":0}', b'{"Width":100,"Height":30}'):
            await client.send(4, size)
        await client.send(0, b"stty size; exit 4\n")
        status = await client.end()

    assert b"30 100\r\n" in client.channels[1]
    assert 2 not in client.channels
    assert status["details"]["causes"][0]["message"] == "4"


async def test_a_command_ends_when_its_client_disconnects(harness: ExecHarness, tmp_path: Path) -> None:
    await harness.run_pod()
    mark = f"{tmp_path.name}-mark"

    async with harness.session("sh", "-c", f"echo ready; while :; do sleep 0.1; done # {mark}") as client:
        await client.until(b"ready")
        assert pids_matching(mark)
        client.abort()

    await eventually(lambda: not pids_matching(mark), "the command has ended")


async def test_a_command_that_does_not_read_its_input_ends_when_its_client_disconnects(
    harness: ExecHarness, tmp_path: Path
) -> None:
    await harness.run_pod()
    mark = f"{tmp_path.name}-mark"

    async with harness.session(
        "sh", "-c", f"echo ready; while :; do sleep 0.1; done # {mark}", stdin="true"
    ) as client:
        await client.until(b"ready")

        async def fill_buffers() -> bool:
            await client.send(0, b"x" * 50_000)
            return not harness.api.is_reading()

        await eventually(fill_buffers, "the server waits for the command")
        client.abort()

    await eventually(lambda: not pids_matching(mark), "the command has ended")


async def test_a_session_ends_with_its_container(harness: ExecHarness) -> None:
    run = await harness.run_pod()

    async with harness.session("sh", "-c", "echo ready; sleep 600") as client:
        await client.until(b"ready")
        await harness.runtime.signal(run, signal.SIGKILL)
        status = await client.end()

    assert status["details"]["causes"][0]["message"] == "137"


async def test_a_draining_server_ends_sessions(harness: ExecHarness) -> None:
    await harness.run_pod()

    async with harness.session("sh", "-c", "echo ready; sleep 600") as client:
        await client.until(b"ready")
        harness.api.parts.limits.drain(0.0)
        message = await client.socket.receive(TIMEOUT_SECONDS)

    assert message.type is WSMsgType.CLOSE


async def test_the_start_and_the_end_of_each_session_are_logged(
    harness: ExecHarness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.run_pod()

    async with harness.session("sh", "-c", "exit 3") as client:
        await client.end()

    def lines() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name.endswith("pod_session")]

    await eventually(lambda: len(lines()) == 2, "both lines are logged")
    assert logging.getLogger().getEffectiveLevel() == logging.WARNING
    started, ended = (vars(record) for record in lines())
    assert (started["message"], started["client"]) == ("session started", "127.0.0.1")
    assert (ended["message"], ended["subresource"]) == ("session ended", "exec")
    assert (ended["pod"], ended["container"]) == ("default/a", "main")
    assert (ended["command"], ended["result"]) == ("sh -c 'exit 3'", "exit code 3")


async def test_a_container_that_has_just_ended_is_reported_in_the_result(harness: ExecHarness) -> None:
    await harness.create_pod()

    async with harness.session("true") as client:
        status = await client.end()

    assert (status["status"], status["reason"]) == ("Failure", "Conflict")


@pytest.mark.parametrize(
    ("query", "code", "reason", "text"),
    [
        pytest.param("stdout=1", 400, "BadRequest", "at least 1 command", id="no command"),
        pytest.param("command=ls&stdout=0", 400, "BadRequest", "stdin, stdout, stderr", id="no stream"),
        pytest.param(
            "command=ls&stdout=1", 400, "BadRequest", "choose one of: [one two]", id="no container of two"
        ),
        pytest.param(
            "command=ls&stdout=1&container=three",
            400,
            "BadRequest",
            "three is not valid",
            id="unknown container",
        ),
        pytest.param(
            "command=ls&stdout=1&container=one",
            409,
            "Conflict",
            "is not running: Completed",
            id="ended container",
        ),
    ],
)
async def test_a_request_is_rejected_with(
    harness: ExecHarness, query: str, code: int, reason: str, text: str
) -> None:
    await harness.create_pod("one", "two", state="terminated")

    for method in ("GET", "POST"):
        reported = (await harness.api.call(method, f"{EXEC}?{query}", None)).failure(code, reason)
        assert text in reported["message"]


async def test_a_missing_pod_is_not_found(harness: ExecHarness) -> None:
    (await harness.api.get(f"{EXEC}?command=ls&stdout=1")).failure(404, "NotFound")


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        pytest.param({}, "Upgrade request required", id="plain HTTP"),
        pytest.param({"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, "SPDY is not supported", id="SPDY"),
        pytest.param({"Connection": "Upgrade", "Upgrade": "websocket"}, V5, id="without a protocol"),
        pytest.param(
            {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "channel.k8s.io"},
            V5,
            id="an old protocol",
        ),
    ],
)
async def test_a_client_that_is_not_supported_is_rejected(
    harness: ExecHarness, headers: dict[str, str], text: str
) -> None:
    await harness.create_pod()

    reported = (await harness.api.get(f"{EXEC}?command=ls&stdout=1", **headers)).failure(400, "BadRequest")

    assert text in reported["message"]


async def test_a_page_of_another_origin_cannot_execute_commands(harness: ExecHarness) -> None:
    await harness.run_pod()

    with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
        await harness.api.session.ws_connect(
            f"{harness.api.url}{EXEC}?command=ls&stdout=1", protocols=[V5], origin="http://evil.example"
        )

    assert failure.value.status == 403


async def test_attach_sends_the_output_from_now_on_until_the_container_ends(harness: ExecHarness) -> None:
    uid, logs = await harness.create_pod(), harness.api.parts.logs
    assert isinstance(logs, InMemoryLogs)
    await logs.write("a", uid, "main", "old")

    async with harness.connection(f"{ATTACH}?stdout=1&stderr=1&stdin=1") as client:
        await client.send(0, b"dropped")
        await eventually(lambda: logs.readers, "the log is followed")
        await logs.write("a", uid, "main", "new", "newer")
        await client.until(b"newer\n")
        await logs.write("a", uid, "main", "last", ended=True)

        assert await client.end() == SUCCESS
    assert client.channels[1] == b"new\nnewer\nlast\n"


async def test_attach_to_a_container_without_a_log_reports_it(harness: ExecHarness) -> None:
    await harness.create_pod()

    async with harness.connection(f"{ATTACH}?stdout=1") as client:
        status = await client.end()

    assert (status["reason"], status["code"]) == ("NotFound", 404)


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        pytest.param("container=one&stdin=1", 400, "BadRequest", id="only input"),
        pytest.param("container=three&stdout=1", 400, "BadRequest", id="unknown container"),
        pytest.param("container=one&stdout=1", 400, "BadRequest", id="plain HTTP"),
    ],
)
async def test_attach_is_rejected_with(harness: ExecHarness, query: str, code: int, reason: str) -> None:
    await harness.create_pod("one", "two")

    (await harness.api.get(f"{ATTACH}?{query}")).failure(code, reason)
