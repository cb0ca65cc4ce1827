"""A server with a few routes and one middleware of the API, and a client that sends raw bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from launcher.api.http.server import SERVER_OPTIONS, make_runner
from launcher.api.middleware.error_responses import add_common_headers, errors_as_status
from launcher.api.middleware.request_info import request_info_middleware
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from tests.api.client import Client
from tests.eventually import TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A client of the server, and its port for raw connections."""

    client: Client
    port: int

    async def raw(self, request: bytes) -> bytes:
        """Returns all that the server sends before it closes the connection."""
        async with self.connection() as (reader, writer):
            writer.write(request)
            return await reader.read()

    async def first_line(self, request: bytes) -> bytes:
        """Returns the first line that the server sends, even if it waits for more of the request."""
        async with self.connection() as (reader, writer):
            writer.write(request)
            return await reader.readline()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of one's own, within the time that anything may take."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                yield reader, writer
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()


def make_application(*inner: Any, outer: tuple[Any, ...] = ()) -> web.Application:
    """Returns an application with *inner* middlewares inside of the error handler and *outer* ones outside."""
    app = web.Application(
        middlewares=[request_info_middleware, *outer, errors_as_status, *inner],
        client_max_size=MAX_BODY_BYTES,
    )
    app.on_response_prepare.append(add_common_headers)
    return app


@asynccontextmanager
async def running(app: web.Application, **options: Any) -> AsyncIterator[RunningServer]:
    """Runs the application on a free port; *options* override the launcher's."""
    runner = make_runner(app, **{**SERVER_OPTIONS, "shutdown_timeout": 0.1, **options})
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        headers = {"User-Agent": "launcher-tests"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
            yield RunningServer(Client(session, f"http://127.0.0.1:{port}"), port)
    finally:
        await runner.cleanup()
