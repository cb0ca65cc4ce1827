"""Upgraded connections through the proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.eventually import TIMEOUT_SECONDS

EXEC = "/api/v1/namespaces/default/pods/a/exec?command=ls&stdin=true"


async def test_a_websocket_is_forwarded(proxy: ProxyClient, cluster: FakeApiServer) -> None:
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
        asyncio.timeout(TIMEOUT_SECONDS),
        proxy.session.ws_connect(f"{proxy.url}{EXEC}", protocols=["v5.channel.k8s.io"]) as socket,
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


async def test_a_websocket_ends_with_its_caller(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    async def wait(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    cluster.answer = wait
    async with asyncio.timeout(TIMEOUT_SECONDS):
        socket = await proxy.session.ws_connect(f"{proxy.url}{EXEC}")
        assert socket._response.connection is not None
        socket._response.connection.close()
        await cluster.cancelled.wait()


async def test_a_rejected_upgrade_is_forwarded(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "not you"}, status=403)

    cluster.answer = refuse
    answer = await proxy.get(EXEC, Connection="Upgrade", Upgrade="SPDY/3.1")

    assert (answer.status, answer.json()["message"]) == (403, "not you")
    # The connection is as good as before.
    assert (await proxy.get(EXEC)).status == 403


async def test_an_upgrade_without_credentials_is_unauthorized(cluster: FakeApiServer) -> None:
    async with run_proxy(ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), headers={}) as proxy:
        with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
            await proxy.session.ws_connect(f"{proxy.url}{EXEC}")

    assert failure.value.status == 401
    assert cluster.requests == []


@asynccontextmanager
async def spdy_server(greeting: bytes) -> AsyncIterator[tuple[list[bytes], ProxyClient]]:
    """A proxy to a server that switches to SPDY, sends *greeting*, and echoes in capitals."""
    heads = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        writer.write(head + b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n" + greeting)
        while received := await reader.read(100):
            writer.write(received.upper())
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with run_proxy(ClusterConfig(url, FixedHeader(LAUNCHER_CREDENTIALS))) as proxy:
            yield heads, proxy


async def test_spdy_is_forwarded() -> None:
    request = (
        f"POST {EXEC} HTTP/1.1\r\nHost: door\r\nAuthorization: {TOKEN}\r\nConnection: Upgrade\r\n"
        "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    )
    async with asyncio.timeout(TIMEOUT_SECONDS), spdy_server(b"hello") as (heads, proxy):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        greeting = await reader.readexactly(5)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        received = await reader.readexactly(18)
        writer.close()
        await writer.wait_closed()

    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nUpgrade: SPDY/3.1\r\n" in head
    assert b"\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n" in head
    assert (greeting, received) == (b"hello", b"GET / HTTP/1.1\r\n\r\n")
    assert b"\r\nUpgrade: SPDY/3.1\r\n" in heads[0]
    assert TOKEN.encode() in heads[0]
