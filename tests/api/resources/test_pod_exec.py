"""``pods/exec`` over real WebSockets, with real processes."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType

from tests.api.resources.exec_harness import (
    EXEC,
    SUCCESS,
    V4,
    V5,
    ExecClient,
    ExecHarness,
    exec_harness,
)
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.node.runtimes import pids_matching


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ExecHarness]:
    async with exec_harness(tmp_path) as opened:
        yield opened


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
