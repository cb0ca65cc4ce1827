"""Connections through the front door that change what they speak."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import PATIENCE
from tests.api.proxy.conftest import OWN
from tests.api.proxy.doors import TOKEN, Door, door_to
from tests.api.proxy.upstream import ApiServer

EXEC = "/api/v1/namespaces/default/pods/a/exec?command=ls&stdin=true"


async def test_a_websocket_goes_through(door: Door, cluster: ApiServer) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        async for message in socket:
            if message.data == b"end":
                break
            await socket.send_bytes(b"\x01" + message.data)
        await socket.close(code=1000, message=b"over")
        return socket

    cluster.answer = echo
    async with (
        asyncio.timeout(PATIENCE),
        door.session.ws_connect(f"{door.url}{EXEC}", protocols=["v5.channel.k8s.io"]) as socket,
    ):
        await socket.send_bytes(b"x" * 1_000_000)
        large = await socket.receive()
        await socket.send_bytes(b"end")
        end = await socket.receive()

    assert (large.type, large.data) == (WSMsgType.BINARY, b"\x01" + b"x" * 1_000_000)
    assert (end.type, end.data, end.extra) == (WSMsgType.CLOSE, 1000, "over")
    assert socket.protocol == "v5.channel.k8s.io"
    assert cluster.last.path == EXEC
    assert cluster.last.headers.getall("Authorization") == [TOKEN]


async def test_a_websocket_ends_with_its_caller(door: Door, cluster: ApiServer) -> None:
    async def wait(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    cluster.answer = wait
    async with asyncio.timeout(PATIENCE):
        socket = await door.session.ws_connect(f"{door.url}{EXEC}")
        assert socket._response.connection is not None
        socket._response.connection.close()
        await cluster.given_up.wait()


async def test_what_the_api_server_refuses_is_refused_in_its_words(door: Door, cluster: ApiServer) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "not you"}, status=403)

    cluster.answer = refuse
    answer = await door.get(EXEC, Connection="Upgrade", Upgrade="SPDY/3.1")

    assert (answer.status, answer.json()["message"]) == (403, "not you")
    # The connection is as good as before.
    assert (await door.get(EXEC)).status == 403


async def test_nobody_changes_a_connection_without_credentials(cluster: ApiServer) -> None:
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN)), headers={}) as door:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await door.session.ws_connect(f"{door.url}{EXEC}")

    assert refused.value.status == 401
    assert cluster.asked == []


@asynccontextmanager
async def speaking(greeting: bytes) -> AsyncIterator[tuple[list[bytes], Door]]:
    """A door to a server that changes to SPDY, says *greeting* at once, and then whatever it hears in capitals."""
    heads = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        writer.write(head + b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n" + greeting)
        while heard := await reader.read(100):
            writer.write(heard.upper())
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with door_to(ClusterConfig(url, FixedHeader(OWN))) as door:
            yield heads, door


async def test_spdy_goes_through() -> None:
    request = (
        f"POST {EXEC} HTTP/1.1\r\nHost: door\r\nAuthorization: {TOKEN}\r\nConnection: Upgrade\r\n"
        "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    )
    async with asyncio.timeout(PATIENCE), speaking(b"hello") as (heads, door):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        greeting = await reader.readexactly(5)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        heard = await reader.readexactly(18)
        writer.close()
        await writer.wait_closed()

    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nUpgrade: SPDY/3.1\r\n" in head
    assert b"\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n" in head
    assert (greeting, heard) == (b"hello", b"GET / HTTP/1.1\r\n\r\n")
    assert b"\r\nUpgrade: SPDY/3.1\r\n" in heads[0]
    assert TOKEN.encode() in heads[0]
