"""``pods/portforward`` over real WebSockets, to real ports."""

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType

from launcher.store.interface import PODS, DeleteOptions, MergePatch
from tests.api.conftest import Api
from tests.api.resources.spdy_client import SpdyClient
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS, eventually

FORWARD = "/api/v1/namespaces/default/pods/a/portforward"
PROTOCOL = "SPDY/3.1+portforward.k8s.io"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def a_running_pod(api: Api) -> None:
    """Creates the pod ``a``, whose programs listen on the loopback address."""
    await api.store.create(PODS, a_pod("a", {"name": "main"}, nodeName="here"))
    await set_status(api, phase="Running", podIP="127.0.0.1")


async def set_status(api: Api, **status: Any) -> None:
    """Changes the status of the pod."""
    await api.store.patch(PODS, "default", "a", MergePatch({"status": status}), subresource="status")


@asynccontextmanager
async def a_program(serve: Serve) -> AsyncIterator[int]:
    """A program of the pod that serves connections. Yields its port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends back everything."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads to the end, and then sends the hash of all."""
    writer.write(hashlib.sha256(await reader.read()).digest())
    writer.close()


@asynccontextmanager
async def a_client(api: Api) -> AsyncIterator[SpdyClient]:
    """The client's side of a session with the pod."""
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        api.session.ws_connect(f"{api.url}{FORWARD}?ports=80", protocols=[PROTOCOL]) as websocket,
    ):
        assert websocket.protocol == PROTOCOL
        yield SpdyClient(websocket)


async def test_bytes_are_copied_in_both_directions(api: Api) -> None:
    await a_running_pod(api)

    async with a_program(echo) as port, a_client(api) as client:
        error, data = await client.connect(port)
        await client.send(data, b"hello")
        await client.until_data(data, b"hello")
        await client.send(data, b"", is_last=True)
        await client.until_ended(error, data)

    assert client.data == {data: b"hello", error: b""}
    assert client.replied == {error, data}


async def test_the_end_of_one_direction_leaves_the_other_open(api: Api) -> None:
    await a_running_pod(api)
    content = os.urandom(3_000_000)

    async with a_program(digest) as port, a_client(api) as client:
        error, data = await client.connect(port)
        for start in range(0, len(content), 32768):
            await client.send(data, content[start : start + 32768])
        await client.send(data, b"", is_last=True)
        await client.until_ended(error, data)

    assert client.data[data] == hashlib.sha256(content).digest()


async def test_the_pod_may_end_its_direction_first(api: Api) -> None:
    received = asyncio.get_running_loop().create_future()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        received.set_result(await reader.read())
        writer.close()

    await a_running_pod(api)
    async with a_program(greet) as port, a_client(api) as client:
        error, data = await client.connect(port)
        await client.until_ended(data)
        assert error not in client.ended
        await client.send(data, b"thanks", is_last=True)
        await client.until_ended(error)

        assert (client.data[data], await received) == (b"bye", b"thanks")


async def test_several_connections_are_independent(api: Api) -> None:
    await a_running_pod(api)

    async with a_program(echo) as port, a_client(api) as client:
        pairs = [await client.connect(port, request) for request in range(10)]
        for number, (_, data) in enumerate(pairs):
            await client.send(data, b"%d" % number)
        await client.send(pairs[0][1], b"", is_last=True)
        await client.until_ended(*pairs[0])
        for number, (_, data) in enumerate(pairs):
            await client.until_data(data, b"%d" % number)

    assert client.ended == set(pairs[0])
    assert [client.data[data] for _, data in pairs] == [b"%d" % number for number in range(10)]


async def test_a_port_without_a_program_is_reported_and_others_continue(api: Api) -> None:
    await a_running_pod(api)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]

    async with a_program(echo) as port, a_client(api) as client:
        error, data = await client.connect(free, 1)
        await client.send(data, b"lost", is_last=True)
        await client.until_ended(error, data)
        _, other = await client.connect(port, 2)
        await client.send(other, b"hello")
        await client.until_data(other, b"hello")

    reported = client.data[error].decode()
    assert f"port {free} of pod a" in reported
    assert "connection refused" in reported


async def test_a_stream_that_is_reset_closes_the_connection(api: Api) -> None:
    closed = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ready")
        with suppress(ConnectionError):
            await reader.read()
        closed.set()
        writer.close()

    await a_running_pod(api)
    async with a_program(wait) as port, a_client(api) as client:
        error, data = await client.connect(port)
        await client.until_data(data, b"ready")
        await client.send_reset(data)
        await client.until_ended(error)
        await closed.wait()

    assert client.data[error] == b""


async def test_a_program_that_does_not_read_slows_only_its_client_down(api: Api) -> None:
    go_on, content = asyncio.Event(), b"x" * 32768

    async def read_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await digest(reader, writer)

    async def send_all(client: SpdyClient, data: int) -> None:
        for _ in range(1000):
            await client.send(data, content)
        await client.send(data, b"", is_last=True)

    await a_running_pod(api)
    async with a_program(read_later) as port, a_client(api) as client:
        error, data = await client.connect(port)
        sending = asyncio.create_task(send_all(client, data))
        await eventually(lambda: not api.is_reading(), "the server waits for the program")
        assert not sending.done()
        go_on.set()
        await client.until_ended(error, data)
        await sending

    assert client.data[data] == hashlib.sha256(content * 1000).digest()


async def test_pings_are_answered(api: Api) -> None:
    await a_running_pod(api)

    async with a_client(api) as client:
        await client.send_ping(3)
        assert await client.receive()

    assert client.pings == [3]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"streamtype": "other", "port": "80"}, id="type"),
        pytest.param({"streamtype": "data", "port": "0"}, id="port"),
        pytest.param({"streamtype": "data", "port": "65536"}, id="large port"),
        pytest.param({"streamtype": "data"}, id="no port"),
    ],
)
async def test_a_stream_is_rejected_for_its(api: Api, headers: dict[str, str]) -> None:
    await a_running_pod(api)

    async with a_client(api) as client:
        stream = await client.open_stream(**headers)
        assert await client.receive()

    assert (client.reset, client.replied) == ({stream}, set())


@pytest.mark.parametrize("end", ["deleted", "completed"])
async def test_a_session_ends_when_its_pod_is(api: Api, end: str) -> None:
    await a_running_pod(api)

    async with a_program(echo) as port, a_client(api) as client:
        _, data = await client.connect(port)
        await client.send(data, b"hello")
        await client.until_data(data, b"hello")
        await set_status(api, message="a change")
        if end == "deleted":
            await api.store.delete(PODS, "default", "a", DeleteOptions(grace=0))
        else:
            await set_status(api, phase="Failed")
        while await client.receive():
            pass

    assert client.socket.close_code == 1000


async def test_the_connections_end_when_the_client_disconnects(api: Api) -> None:
    connected, closed = asyncio.Event(), asyncio.Event()

    async def never_read(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        with suppress(ConnectionError):
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        closed.set()

    await a_running_pod(api)
    async with a_program(never_read) as port, a_client(api) as client:
        _, data = await client.connect(port)
        await connected.wait()

        async def fill_buffers() -> bool:
            await client.send(data, b"x" * 32768)
            return not api.is_reading()

        await eventually(fill_buffers, "the server waits for the program")
        connection = client.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()
        await closed.wait()


async def test_a_draining_server_ends_sessions(api: Api) -> None:
    await a_running_pod(api)

    async with a_client(api) as client:
        api.parts.limits.drain(0.0)

        assert not await client.receive()


async def test_bytes_that_are_not_spdy_end_the_session(api: Api) -> None:
    await a_running_pod(api)

    async with a_client(api) as client:
        await client.socket.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        message = await client.socket.receive(TIMEOUT_SECONDS)

    assert (message.type, message.data) == (WSMsgType.CLOSE, 1002)


async def test_the_start_and_the_end_of_a_session_are_logged(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    await a_running_pod(api)
    async with a_program(echo) as port, a_client(api) as client:
        for request in (1, 2):
            error, data = await client.connect(port, request)
            await client.send(data, b"", is_last=True)
            await client.until_ended(error)

    def lines() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name.endswith("pod_session")]

    await eventually(lambda: len(lines()) == 2, "both lines are logged")
    started, ended = (vars(record) for record in lines())
    assert (started["message"], started["client"]) == ("session started", "127.0.0.1")
    assert (ended["message"], ended["subresource"], ended["pod"]) == (
        "session ended",
        "portforward",
        "default/a",
    )
    assert ended["result"] == f"connections by port: {port}: 2"


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        pytest.param({}, "Upgrade request required", id="plain HTTP"),
        pytest.param({"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, "kubectl 1.31 or newer", id="SPDY"),
        pytest.param({"Connection": "Upgrade", "Upgrade": "websocket"}, PROTOCOL, id="without a protocol"),
    ],
)
async def test_a_client_that_is_not_supported_is_rejected(
    api: Api, headers: dict[str, str], text: str
) -> None:
    await a_running_pod(api)

    assert text in (await api.get(FORWARD, **headers)).failure(400, "BadRequest")["message"]


async def test_a_pod_that_does_not_run_is_a_conflict(api: Api) -> None:
    (await api.get(FORWARD)).failure(404, "NotFound")
    await a_running_pod(api)
    await set_status(api, phase="Succeeded")

    assert "Succeeded" in (await api.get(FORWARD)).failure(409, "Conflict")["message"]


async def test_a_page_of_another_origin_cannot_forward_ports(api: Api) -> None:
    await a_running_pod(api)

    with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
        await api.session.ws_connect(
            f"{api.url}{FORWARD}", protocols=[PROTOCOL], origin="http://evil.example"
        )

    assert failure.value.status == 403
