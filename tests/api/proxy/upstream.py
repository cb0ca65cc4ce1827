"""A stand-in for a cluster's API server: it notes every request, and answers as a test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDictProxy

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    #: What the certificate says that the client has shown, if it has.
    certificate: Any

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(slots=True)
class ApiServer:
    """What it was asked, and how it answers from now on."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answer: Answer | None = None
    #: The only credentials that it takes, if they matter.
    believes: str | None = None
    #: Set when a request that was being answered was given up by its client.
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        certificate = request.get_extra_info("peercert")
        body = await request.read()
        self.asked.append(Asked(request.method, request.raw_path, request.headers, body, certificate))
        if self.believes not in (None, request.headers.get("Authorization")):
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        try:
            if self.answer is not None:
                return await self.answer(request)
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return web.json_response({"kind": "Anything"}, headers={"Audit-Id": "from-upstream"})


@asynccontextmanager
async def api_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    """A stand-in on a free port."""
    server = ApiServer()
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
