"""What callers are told when the API server is not there, or not as it should be."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from launcher.api.middleware.request_limits import RequestLimits
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import PATIENCE, until
from tests.api.proxy.conftest import OWN
from tests.api.proxy.doors import TOKEN, Door, door_to
from tests.api.proxy.upstream import ApiServer
from tests.api.samples import A, B, framework
from tests.cluster.ports import free_port


async def test_an_api_server_that_is_not_there_is_told_with_a_time_to_try_again() -> None:
    port = free_port()
    try:
        async with door_to(ClusterConfig(f"http://127.0.0.1:{port.number}", FixedHeader(OWN))) as door:
            for answer in (await door.get(B), await door.post(B, framework()), await door.delete(A)):
                told = answer.refused(503, "ServiceUnavailable")
                assert "API server" in told["message"]
                assert answer.headers["Retry-After"] == "1"
    finally:
        port.give_back()


class Cutting:
    """A server that closes every connection as soon as a request has come, or after as many as it is told."""

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
async def cutting(serves: int = 0) -> AsyncIterator[tuple[Cutting, Door]]:
    server = Cutting(serves)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with door_to(ClusterConfig(url, FixedHeader(OWN))) as door:
            yield server, door


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_change_whose_answer_is_lost_is_not_made_again(method: str) -> None:
    async with cutting() as (server, door):
        answer = await door.call(
            method, "/api/v1/namespaces/default/pods/a", {} if method != "DELETE" else None
        )

    told = answer.refused(504, "Timeout")
    assert "took effect" in told["message"]
    assert "Retry-After" not in answer.headers
    assert server.requests == [method.encode()]


async def test_reading_is_tried_once_more() -> None:
    async with cutting() as (server, door):
        (await door.get(B)).refused(503, "ServiceUnavailable")

    assert server.requests == [b"GET", b"GET"]


async def test_an_answer_that_takes_too_long_is_not_waited_for(cluster: ApiServer) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(PATIENCE)
        raise AssertionError("nobody waits that long")

    cluster.answer = never
    limits = RequestLimits(read_seconds=0.1, write_seconds=0.1)
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN)), limits=limits) as door:
        read, written = await door.get(B), await door.post(B, framework())

    assert read.refused(504, "Timeout")
    assert read.headers["Retry-After"] == "1"
    assert "took effect" in written.refused(504, "Timeout")["message"]


async def test_there_are_only_so_many_streams_at_once(cluster: ApiServer) -> None:
    async def quiet(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(PATIENCE)
        return response

    cluster.answer = quiet
    watch = "/apis/apps/v1/deployments?watch=true"
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN)), limits=RequestLimits(streams=1)) as door:
        async with door.watch(watch):
            refused = await door.get(watch)
        await until(lambda: cluster.given_up.is_set())
        async with door.watch(watch):
            pass

    refused.refused(429, "TooManyRequests")
    assert refused.headers["Retry-After"] == "5"


async def test_streams_end_well_when_the_launcher_stops(cluster: ApiServer) -> None:
    async def quiet(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(PATIENCE)
        return response

    cluster.answer = quiet
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN))) as door:
        async with door.watch("/api/v1/pods?watch=1") as stream:
            door.parts.limits.drain(within=0.0)
            assert await stream.rest() == []
        refused = await door.get(B)
        probe = await door.get("/livez")

    refused.refused(503, "ServiceUnavailable")
    assert probe.status == 200


async def test_whoever_takes_nothing_for_too_long_is_let_go(
    door: Door, cluster: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**16)

    cluster.answer = flood
    monkeypatch.setattr("launcher.api.proxy.handler._STALL", 0.2)
    async with door.session.get(f"{door.url}/api/v1/namespaces/default/pods/a/log?follow=1"):
        async with asyncio.timeout(PATIENCE):
            await cluster.given_up.wait()


async def test_credentials_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with cutting() as (_, door):
        await door.post(B, framework())
        await door.get(B)
        await door.post(B, b"nonsense")
        await door.get("/../..")

    said = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert TOKEN.removeprefix("Bearer ") not in said
    assert OWN.removeprefix("Bearer ") not in said
