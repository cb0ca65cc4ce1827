"""The HTTP server: connection limits, and errors of requests that cannot be parsed."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypedDict

from aiohttp import web

from launcher.api.http.status import SERVER, failure_status, internal_error_status, status_response


class RouteProvider(Protocol):
    """A component with HTTP routes."""

    def add_to(self, app: web.Application) -> None:
        """Adds its routes to *app*."""


class DashboardRoutes(Protocol):
    """A component with the page at ``/`` for browsers."""

    def add_to(
        self, app: web.Application, root: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> None:
        """Adds its routes to *app*; *root* handles ``GET /`` of other clients."""


log = logging.getLogger(__name__)


class ServerOptions(TypedDict):
    """Connection options of ``web.AppRunner``."""

    max_line_size: int
    max_field_size: int
    keepalive_timeout: float
    lingering_time: float
    auto_decompress: bool
    handler_cancellation: bool


#: The application has ``client_max_size=MAX_BODY_BYTES`` in addition.
SERVER_OPTIONS = ServerOptions(
    # Large enough for long selectors and tokens.
    max_line_size=64 * 1024,
    max_field_size=64 * 1024,
    # Also limits the time for the headers of a request, from the end of the previous one.
    keepalive_timeout=60.0,
    # The rest of a rejected body is read for this time, so that the client receives the response.
    lingering_time=5.0,
    # A compressed body could exceed the size limit.
    auto_decompress=False,
    # A handler stops when its client disconnects; this also ends watches.
    handler_cancellation=True,
)


def make_runner(app: web.Application, **options: Any) -> web.AppRunner:
    """Returns a runner of *app*; *options* of AppRunner override the launcher's."""
    return _HttpRunner(app, **{"access_log": None, **SERVER_OPTIONS, **options})


class _HttpRunner(web.AppRunner):
    """Responds with a Status to requests that are not HTTP."""

    __slots__ = ()

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _HttpServer(
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            loop=server._loop,  # noqa: SLF001 - aiohttp has no way to choose the protocol of a server
            **server._kwargs,  # noqa: SLF001 - as above
        )


class _HttpServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _HttpProtocol(self, loop=self._loop, **self._kwargs)


class _HttpProtocol(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature
    ) -> web.StreamResponse:
        if request.writer.output_size:
            raise ConnectionResetError("the response was interrupted")
        if status >= 500:
            log.error("request failed", exc_info=exc)
            body = internal_error_status()
        else:
            # Without the text that the parser rejected: it may be long, and may contain a secret.
            reason = type(exc).__name__ if exc is not None else "malformed"
            body = failure_status(status, "BadRequest", f"malformed HTTP request ({reason})")
        response = status_response(request, status, body)
        response.headers["Server"] = SERVER
        response.force_close()
        return response
