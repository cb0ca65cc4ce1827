"""gRPC probes: the health protocol, against the server of the grpcio library."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.node.agent.handler_runner import HandlerResult, HandlerRunner
from launcher.node.container_runtime import RunId
from tests.eventually import TIMEOUT_SECONDS
from tests.launcher_process import PROJECT
from tests.node.fake_runtime import FakeRuntime
from tests.node.harness import NodeAgentHarness, a_container, a_pod, in_virtual_time, phase


@contextmanager
def a_server(*services: str) -> Iterator[int]:
    """A server in a process of its own, because its threads and the forks of other tests exclude each other."""
    command = [sys.executable, "-m", "tests.node.agent.grpc_server", *services]
    process = subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline()
        assert port, process.communicate(timeout=TIMEOUT_SECONDS)[1]
        yield int(port)
    finally:
        process.communicate(timeout=TIMEOUT_SECONDS)


async def probe(port: int, *, seconds: float = TIMEOUT_SECONDS, **spec: Any) -> HandlerResult:
    runner = HandlerRunner(FakeRuntime(time.time), RunId("u.main.0"), {}, "127.0.0.1")
    return await runner.run_action({"grpc": {"port": port, **spec}}, seconds)


async def test_a_service_is_healthy_only_while_it_is_serving() -> None:
    long_name = "a.b." + "c" * 300
    with a_server("=SERVING", "down=NOT_SERVING", "new=UNKNOWN", f"{long_name}=SERVING") as port:
        assert (await probe(port)).succeeded
        assert (await probe(port, service=long_name)).succeeded
        down, new = await probe(port, service="down"), await probe(port, service="new")
        other = await probe(port, service="other")

    assert (down.succeeded, down.output) == (False, 'service unhealthy (responded with "NOT_SERVING")')
    assert (new.succeeded, new.output) == (False, 'service unhealthy (responded with "UNKNOWN")')
    assert not other.succeeded
    assert "health rpc failed" in other.output


async def test_a_server_without_the_health_service_is_unhealthy() -> None:
    with a_server() as port:
        result = await probe(port)

    assert not result.succeeded
    assert "does not implement grpc.health.v1.Health" in result.output


async def test_a_port_without_a_server_is_unhealthy() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    result = await probe(port)

    assert not result.succeeded
    assert "refused" in result.output or "Connect call failed" in result.output


#: An empty SETTINGS frame, with which a server begins.
SETTINGS = bytes(3) + b"\x04" + bytes(5)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        pytest.param(b"", "closed the connection", id="nothing"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "closed the connection", id="HTTP/1.1"),
        pytest.param(bytes(3) + b"\x00" + bytes(5), "not valid", id="a frame that is not allowed"),
        pytest.param(SETTINGS, "closed the connection", id="only the preface"),
        pytest.param(
            SETTINGS + b"\0\0\x04\x03\0\0\0\0\x01" + b"\0\0\0\x07",
            "REFUSED_STREAM",
            id="a reset of the stream",
        ),
        pytest.param(
            SETTINGS + b"\0\0\x08\x07\0\0\0\0\0" + bytes(4) + b"\0\0\0\x0b",
            "ENHANCE_YOUR_CALM",
            id="a GOAWAY",
        ),
    ],
)
async def test_other_responses_are_failures_with_a_reason(response: bytes, reason: str) -> None:
    done = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        writer.write(response)
        writer.write_eof()
        # Until the client has closed: a close before that resets the connection.
        await reader.read()
        writer.close()
        done.set()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        result = await probe(server.sockets[0].getsockname()[1])
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await done.wait()

    assert not result.succeeded
    assert reason in result.output


async def test_a_server_that_does_not_respond_times_out() -> None:
    released = asyncio.Event()

    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        result = await probe(server.sockets[0].getsockname()[1], seconds=0.2)
        released.set()

    assert result == HandlerResult(False, "timed out after 0.2s")


def test_a_container_whose_grpc_probe_fails_is_killed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        probe = {"grpc": {"port": 1}, "failureThreshold": 1}
        async with harness.agent():
            await harness.create(a_pod("p", a_container("main", "sleep", "900", livenessProbe=probe)))
            await harness.when("p", phase("Failed"))

        assert any("Liveness probe failed" in event for event in await harness.events("Unhealthy"))

    in_virtual_time(scenario, tmp_path)
