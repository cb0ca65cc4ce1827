"""A server with a few routes and one part of the API around them; and a way to send it exactly these bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from launcher.api.http.server import make_runner
from launcher.api.http.status import common_headers, errors_as_status
from launcher.api.middleware.request_limits import SERVER_OPTIONS
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from tests.api.client import PATIENCE, Client


@dataclass(frozen=True, slots=True)
class Running:
    """A client of the server, and the port for those who speak to it in bytes."""

    client: Client
    port: int

    async def raw(self, request: bytes) -> bytes:
        """All that the server says to these bytes before it closes the connection."""
        async with self.connection() as (reader, writer):
            writer.write(request)
            return await reader.read()

    async def first_line(self, request: bytes) -> bytes:
        """The first line that the server says to these bytes, even if it waits for more of them."""
        async with self.connection() as (reader, writer):
            writer.write(request)
            return await reader.readline()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of one's own, within the time that anything may take."""
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                yield reader, writer
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()


def application(*inner: Any, outer: tuple[Any, ...] = ()) -> web.Application:
    """An application in which *inner* stands inside of what makes errors into answers, and *outer* outside."""
    app = web.Application(middlewares=[*outer, errors_as_status, *inner], client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(common_headers)
    return app


@asynccontextmanager
async def running(app: web.Application, **options: Any) -> AsyncIterator[Running]:
    """The application on a free port; *options* in place of ours."""
    runner = make_runner(app, **{**SERVER_OPTIONS, "shutdown_timeout": 0.1, **options})
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        headers = {"User-Agent": "launcher-tests"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
            yield Running(Client(session, f"http://127.0.0.1:{port}"), port)
    finally:
        await runner.cleanup()
