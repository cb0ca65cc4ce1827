import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from launcher.api.middleware.request_limits import RequestLimits, record_stream
from launcher.api.system_endpoints import Health
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from tests.api.servers import RunningServer, make_application, running
from tests.eventually import TIMEOUT_SECONDS

PODS = "/api/v1/namespaces/default/pods"
WATCH = f"{PODS}?watch=1"
LOG = f"{PODS}/a/log?follow=1"


@dataclass(slots=True)
class ControlledHandlers:
    """Handlers that block until the test releases them."""

    #: How many are at it.
    busy: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, request: web.Request) -> web.StreamResponse:
        """Responds when released, or when the client disconnects."""
        async with self._at_work():
            await self.let_go.wait()
        return web.Response(text="done")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """A line, and then nothing."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun\n")
        async with self._at_work():
            await self.let_go.wait()
        return response

    async def measure(self, request: web.Request) -> web.StreamResponse:
        """How much was sent."""
        async with self._at_work():
            return web.Response(text=str(len(await request.read())))

    async def until_busy(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS), self.changed:
            await self.changed.wait_for(lambda: self.busy == count)

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        await self._count(1)
        try:
            yield
        finally:
            await self._count(-1)

    async def _count(self, step: int) -> None:
        async with self.changed:
            self.busy += step
            self.changed.notify_all()


@asynccontextmanager
async def limited(
    work: ControlledHandlers, limits: RequestLimits, **options: Any
) -> AsyncIterator[RunningServer]:
    async def pods(request: web.Request) -> web.StreamResponse:
        return await (work.stream if "watch" in request.query else work.wait)(request)

    app = make_application(limits.middleware)
    app.on_response_prepare.append(record_stream)
    health = Health({"drain": limits.not_draining})
    app.router.add_get("/readyz", health.readyz)
    app.router.add_get("/livez", health.livez)
    app.router.add_get(PODS, pods)
    app.router.add_get(f"{PODS}/a/log", work.stream)
    app.router.add_post(PODS, work.measure)
    app.router.add_put(PODS, work.wait)
    async with running(app, **options) as server:
        yield server


async def test_check_110_reads_over_the_limit_get_retry_after() -> None:
    work = ControlledHandlers()
    async with (
        limited(work, RequestLimits(max_reads=1, max_writes=1)) as server,
        asyncio.TaskGroup() as tasks,
    ):
        first = tasks.create_task(server.client.get(PODS))
        await work.until_busy(1)

        answer = await server.client.get(PODS)
        work.let_go.set()

        answer.failure(429, "TooManyRequests")
        assert answer.headers["Retry-After"] == "1"
        assert (await first).status == 200
        assert (await server.client.get(PODS)).status == 200


async def test_check_110_reads_and_writes_are_counted_separately() -> None:
    work = ControlledHandlers()
    async with (
        limited(work, RequestLimits(max_reads=1, max_writes=1)) as server,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(server.client.get(PODS))
        await work.until_busy(1)

        assert (await server.client.post(PODS, b"abc")).body == b"3"
        tasks.create_task(server.client.put(PODS, b""))
        await work.until_busy(2)
        (await server.client.put(PODS, b"")).failure(429, "TooManyRequests")
        work.let_go.set()


@pytest.mark.parametrize("path", [WATCH, LOG])
async def test_check_110_watches_and_logs_are_not_counted(path: str) -> None:
    work = ControlledHandlers()
    async with (
        limited(work, RequestLimits(max_reads=1)) as server,
        server.client.watch(path),
        server.client.watch(path),
    ):
        await work.until_busy(2)

        work.let_go.set()
        assert (await server.client.get(PODS)).status == 200


async def test_a_disconnected_client_frees_its_slot() -> None:
    work = ControlledHandlers()
    async with limited(work, RequestLimits(max_reads=1)) as server:
        async with server.connection() as (_, writer):
            writer.write(f"GET {PODS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await work.until_busy(1)
        await work.until_busy(0)
        work.let_go.set()

        assert (await server.client.get(PODS)).status == 200


async def test_probes_are_not_limited() -> None:
    work = ControlledHandlers()
    async with limited(work, RequestLimits(max_reads=0, max_writes=0)) as server:
        assert (await server.client.get("/readyz")).body == b"ok"


async def test_check_109_a_draining_server_rejects_new_requests() -> None:
    limits = RequestLimits()
    async with limited(ControlledHandlers(), limits) as server:
        limits.drain()

        for path in (PODS, WATCH):
            answer = await server.client.get(path)
            answer.failure(503, "ServiceUnavailable")
            assert answer.headers["Retry-After"] == "1"
        (await server.client.post(PODS, b"")).failure(503, "ServiceUnavailable")
        ready = await server.client.get("/readyz")
        assert (ready.status, b"[-]drain failed" in ready.body) == (500, True)
        assert (await server.client.get("/livez")).status == 200


async def test_check_109_a_draining_server_completes_requests_in_flight() -> None:
    work, limits = ControlledHandlers(), RequestLimits()
    async with limited(work, limits) as server, asyncio.TaskGroup() as tasks:
        read = tasks.create_task(server.client.get(PODS))
        await work.until_busy(1)

        limits.drain()
        work.let_go.set()

        assert (await read).status == 200


@pytest.mark.parametrize("path", [WATCH, LOG])
async def test_check_109_watches_and_logs_end_properly_when_the_server_drains(path: str) -> None:
    work, limits = ControlledHandlers(), RequestLimits(jitter=lambda: 0.0)
    async with limited(work, limits) as server, server.connection() as (reader, writer):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        await work.until_busy(1)

        limits.drain()

        answer = await reader.read()
        assert answer.endswith(b"6\r\nbegun\n\r\n0\r\n\r\n")
        await work.until_busy(0)


async def test_watches_end_at_different_times() -> None:
    jitters = iter([0.0, 1.0, 1.0])
    work, limits = ControlledHandlers(), RequestLimits(jitter=lambda: next(jitters))
    async with limited(work, limits) as server, server.client.watch(WATCH), server.client.watch(WATCH):
        await work.until_busy(2)
        limits.drain(within=3600.0)

        await work.until_busy(1)
        limits.drain(within=0.0)
        await work.until_busy(0)


async def test_a_second_drain_is_faster() -> None:
    work, limits = ControlledHandlers(), RequestLimits()
    async with limited(work, limits) as server, server.client.watch(WATCH):
        await work.until_busy(1)
        limits.drain(within=0.0)
        await asyncio.sleep(0)

        limits.drain(within=0.0)

        await work.until_busy(0)


async def test_a_read_that_times_out_may_be_retried() -> None:
    async with limited(ControlledHandlers(), RequestLimits(read_seconds=0.05)) as server:
        answer = await server.client.get(PODS)

    assert "timed out after 0.05s" in answer.failure(504, "Timeout")["message"]
    assert answer.headers["Retry-After"] == "1"


async def test_a_write_that_times_out_has_an_unknown_outcome() -> None:
    async with limited(ControlledHandlers(), RequestLimits(write_seconds=0.05)) as server:
        answer = await server.client.put(PODS, b"")

    assert "may have been applied" in answer.failure(504, "Timeout")["message"]
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize("path", [WATCH, LOG])
async def test_watches_and_logs_have_no_time_limit(path: str) -> None:
    work = ControlledHandlers()
    async with limited(work, RequestLimits(read_seconds=0.01)) as server, server.client.watch(path):
        await work.until_busy(1)
        (await server.client.get(PODS)).failure(504, "Timeout")

        assert work.busy == 1


async def test_a_slow_body_times_out() -> None:
    work = ControlledHandlers()
    async with (
        limited(work, RequestLimits(write_seconds=0.2), lingering_time=0.1) as server,
        server.connection() as (reader, writer),
    ):
        head = f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        writer.write(head.encode())
        await work.until_busy(1)
        async with sending_slowly(writer):
            assert (await reader.readline()).startswith(b"HTTP/1.1 504 ")
            await until_closed(reader)

    assert work.busy == 0


async def test_slow_headers_time_out() -> None:
    async with (
        limited(ControlledHandlers(), RequestLimits(), keepalive_timeout=0.2) as server,
        server.connection() as (reader, writer),
    ):
        writer.write(f"GET {PODS} HTTP/1.1\r\nHost: localhost\r\nX-Long: ".encode())
        async with sending_slowly(writer):
            assert await until_closed(reader) == b""


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Returns what was received before the server closed the connection."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@asynccontextmanager
async def sending_slowly(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Sends a byte now and then during the block."""

    async def send_slowly() -> None:
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.02)

    task = asyncio.create_task(send_slowly())
    try:
        yield
    finally:
        task.cancel()


def post(body: bytes, *, chunked: bool) -> bytes:
    """A whole request, its body in one piece of known size or in chunks."""
    head = f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if chunked:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_the_largest_size_is_read(chunked: bool) -> None:
    async with limited(ControlledHandlers(), RequestLimits()) as server:
        answer = await server.raw(post(b"x" * MAX_BODY_BYTES, chunked=chunked))

    assert answer.endswith(b"\r\n\r\n3145728")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_rejected(chunked: bool) -> None:
    async with limited(ControlledHandlers(), RequestLimits()) as server:
        answer = await server.raw(post(b"x" * (MAX_BODY_BYTES + 1), chunked=chunked))

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"message":"Request entity too large: limit is 3145728"' in answer
    assert b'"reason":"RequestEntityTooLarge"' in answer


async def test_a_body_with_a_too_large_content_length_is_not_awaited() -> None:
    async with limited(ControlledHandlers(), RequestLimits()) as server:
        head = f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"

        assert await server.first_line(head.encode()) == b"HTTP/1.1 413 Request Entity Too Large\r\n"


async def test_a_compressed_body_is_not_decompressed() -> None:
    compressed = gzip.compress(b"x" * 1_000_000)
    head = f"POST {PODS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: gzip\r\n"
    async with limited(ControlledHandlers(), RequestLimits()) as server:
        answer = await server.raw(f"{head}Content-Length: {len(compressed)}\r\n\r\n".encode() + compressed)

    assert answer.endswith(f"\r\n\r\n{len(compressed)}".encode())


async def test_check_111_long_selectors_and_tokens_are_accepted() -> None:
    work = ControlledHandlers()
    work.let_go.set()
    async with limited(work, RequestLimits()) as server:
        long = await server.client.get(f"{PODS}?labelSelector={'a' * 20_000}", Authorization="x" * 16_000)
        longer = await server.client.get(f"{PODS}?labelSelector={'a' * 70_000}")

    assert long.status == 200
    longer.failure(400, "BadRequest")
