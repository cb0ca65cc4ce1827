"""A fake API server that records every request and responds as a test configures."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDictProxy

HttpResponse = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A recorded request."""

    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    #: The client certificate, if there is one.
    certificate: Any

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(slots=True)
class FakeApiServer:
    """The recorded requests, and the configured response."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    answer: HttpResponse | None = None
    #: The only credentials that it takes, if they matter.
    accepted_credentials: str | None = None
    #: Set when a client disconnected before the response.
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last(self) -> ReceivedRequest:
        return self.requests[-1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        certificate = request.get_extra_info("peercert")
        body = await request.read()
        self.requests.append(
            ReceivedRequest(request.method, request.raw_path, request.headers, body, certificate)
        )
        if self.accepted_credentials not in (None, request.headers.get("Authorization")):
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        try:
            if self.answer is not None:
                return await self.answer(request)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return web.json_response({"kind": "Anything"}, headers={"Audit-Id": "from-upstream"})


@asynccontextmanager
async def run_fake_api_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeApiServer]:
    """A fake API server on a free port."""
    server = FakeApiServer()
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
