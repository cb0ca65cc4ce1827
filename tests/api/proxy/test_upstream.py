"""Responses of the proxy when the API server fails."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from launcher.api.middleware.request_limits import RequestLimits
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.api.samples import A, B, framework
from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS, eventually


async def test_an_unreachable_api_server_is_unavailable_with_retry_after() -> None:
    port = free_port()
    try:
        async with run_proxy(
            ClusterConfig(f"http://127.0.0.1:{port.number}", FixedHeader(LAUNCHER_CREDENTIALS))
        ) as proxy:
            for answer in (await proxy.get(B), await proxy.post(B, framework()), await proxy.delete(A)):
                reported = answer.failure(503, "ServiceUnavailable")
                assert "API server" in reported["message"]
                assert answer.headers["Retry-After"] == "1"
    finally:
        port.release()


class DisconnectingServer:
    """A server that closes every connection after so many requests."""

    def __init__(self, serves: int) -> None:
        self.requests: list[bytes] = []
        self._serves = serves

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head.partition(b" ")[0])
                if len(self.requests) > self._serves:
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except asyncio.IncompleteReadError:
            pass
        writer.close()


@asynccontextmanager
async def cutting(serves: int = 0) -> AsyncIterator[tuple[DisconnectingServer, ProxyClient]]:
    server = DisconnectingServer(serves)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with run_proxy(ClusterConfig(url, FixedHeader(LAUNCHER_CREDENTIALS))) as proxy:
            yield server, proxy


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_whose_response_is_lost_is_not_repeated(method: str) -> None:
    async with cutting() as (server, proxy):
        answer = await proxy.call(
            method, "/api/v1/namespaces/default/pods/a", {} if method != "DELETE" else None
        )

    reported = answer.failure(504, "Timeout")
    assert "may have been applied" in reported["message"]
    assert "Retry-After" not in answer.headers
    assert server.requests == [method.encode()]


async def test_a_read_is_retried_once() -> None:
    async with cutting() as (server, proxy):
        (await proxy.get(B)).failure(503, "ServiceUnavailable")

    assert server.requests == [b"GET", b"GET"]


async def test_a_slow_response_times_out(cluster: FakeApiServer) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(TIMEOUT_SECONDS)
        raise AssertionError("the request timed out before")

    cluster.answer = never
    limits = RequestLimits(read_seconds=0.1, write_seconds=0.1)
    async with run_proxy(
        ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), limits=limits
    ) as proxy:
        read, written = await proxy.get(B), await proxy.post(B, framework())

    assert read.failure(504, "Timeout")
    assert read.headers["Retry-After"] == "1"
    assert "may have been applied" in written.failure(504, "Timeout")["message"]


async def test_the_number_of_streams_is_limited(cluster: FakeApiServer) -> None:
    async def quiet(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(TIMEOUT_SECONDS)
        return response

    cluster.answer = quiet
    watch = "/apis/apps/v1/deployments?watch=true"
    async with run_proxy(
        ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), limits=RequestLimits(max_streams=1)
    ) as proxy:
        async with proxy.watch(watch):
            failure = await proxy.get(watch)
        await eventually(lambda: cluster.cancelled.is_set())
        async with proxy.watch(watch):
            pass

    failure.failure(429, "TooManyRequests")
    assert failure.headers["Retry-After"] == "5"


async def test_streams_are_ended_properly_when_the_launcher_stops(cluster: FakeApiServer) -> None:
    async def quiet(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(TIMEOUT_SECONDS)
        return response

    cluster.answer = quiet
    async with run_proxy(ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))) as proxy:
        async with proxy.watch("/api/v1/pods?watch=1") as stream:
            proxy.parts.limits.drain(within=0.0)
            assert await stream.rest() == []
        failure = await proxy.get(B)
        probe = await proxy.get("/livez")

    failure.failure(503, "ServiceUnavailable")
    assert probe.status == 200


async def test_a_caller_that_does_not_read_is_disconnected(
    proxy: ProxyClient, cluster: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**16)

    cluster.answer = flood
    monkeypatch.setattr("launcher.api.proxy.handler._WRITE_SECONDS", 0.2)
    async with proxy.session.get(f"{proxy.url}/api/v1/namespaces/default/pods/a/log?follow=1"):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await cluster.cancelled.wait()


async def test_credentials_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with cutting() as (_, proxy):
        await proxy.post(B, framework())
        await proxy.get(B)
        await proxy.post(B, b"nonsense")
        await proxy.get("/../..")

    logged = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert TOKEN.removeprefix("Bearer ") not in logged
    assert LAUNCHER_CREDENTIALS.removeprefix("Bearer ") not in logged
