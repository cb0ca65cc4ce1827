"""The HTTP server around the application: limits, and errors that come before any route is found."""

import logging
from typing import Any, Protocol

from aiohttp import web

from launcher.api.http.status import SERVER, failure, internal_error, status_response
from launcher.api.middleware.request_limits import SERVER_OPTIONS


class RouteProvider(Protocol):
    """Whatever has routes of its own."""

    def add_to(self, app: web.Application) -> None:
        """Let *app* serve them."""


log = logging.getLogger(__name__)


def make_runner(app: web.Application, **options: Any) -> web.AppRunner:
    """What serves *app*, ready to be set up and given sites; *options* are those of AppRunner, before our own."""
    return _Runner(app, **{"access_log": None, **SERVER_OPTIONS, **options})


class _Runner(web.AppRunner):
    """As its parent, with our own words for what cannot be read as HTTP."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Server(
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            loop=server._loop,  # noqa: SLF001 - aiohttp has no way to choose the protocol of a server
            **server._kwargs,  # noqa: SLF001 - as above
        )


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


class _Protocol(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature
    ) -> web.StreamResponse:
        if request.writer.output_size:
            raise ConnectionResetError("the answer broke off")
        if status >= 500:
            log.error("request failed", exc_info=exc)
            said = internal_error()
        else:
            # Without what the parser stumbled over: it may be long, and somebody's secret.
            what = type(exc).__name__ if exc is not None else "malformed"
            said = failure(status, "BadRequest", f"this is no HTTP request that can be read ({what})")
        response = status_response(request, status, said)
        response.headers["Server"] = SERVER
        response.force_close()
        return response
