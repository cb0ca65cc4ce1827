"""
Limits on the number, size and duration of requests.

A request over a limit is rejected before it has changed anything, so the client may retry it. Long-running requests
(watches, logs) have no timeout and a limit of their own; they end when the client disconnects or the server drains.
"""

import asyncio
import random
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.http.request_body import too_large
from launcher.api.middleware.request_info import is_probe, request_info
from launcher.core.errors import OutcomeUnknown, TooManyRequests, Unavailable
from launcher.core.parsing.decoder import MAX_BODY_BYTES

#: Watches and logs end spread over this time when the server drains, so that clients do not all reconnect at once.
_DRAIN_SECONDS = 10.0
_STOPPING = "the server is shutting down; retry"


class RequestLimits:
    """
    Limits concurrent requests: *max_reads*, *max_writes*, and *max_streams* for long-running ones.

    Reads and writes have a timeout, which includes the body. Requests that are *exempt* have no limit.
    """

    def __init__(
        self,
        *,
        max_reads: int = 400,
        max_writes: int = 200,
        read_seconds: float = 60.0,
        write_seconds: float = 34.0,
        max_streams: int | None = None,
        exempt: Callable[[web.BaseRequest], bool] = is_probe,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._max = {False: max_reads, True: max_writes}
        self._seconds = {False: read_seconds, True: write_seconds}
        self._in_flight = {False: 0, True: 0}
        self._max_streams, self._exempt = max_streams, exempt
        self._jitter = jitter
        self._draining = False
        self._streams: dict[asyncio.Timeout, None] = {}

    def drain(self, within: float = _DRAIN_SECONDS) -> None:
        """
        Rejects new requests, and ends long-running ones at random times *within* so many seconds.

        A second call sets new times.
        """
        self._draining = True
        now = asyncio.get_running_loop().time()
        for scope in self._streams:
            if not scope.expired():
                scope.reschedule(now + within * self._jitter())

    async def not_draining(self) -> None:
        """A check for ``/readyz``. Raises Unavailable while the server drains."""
        if self._draining:
            raise Unavailable(_STOPPING)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._exempt(request):
            return await handler(request)
        await self.not_draining()
        info = request_info(request)
        if info.long_running:
            return await self._handle_stream(request, handler)
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large()
        return await self._handle_counted(request, handler, writes=info.writes)

    async def _handle_counted(
        self, request: web.Request, handler: Handler, *, writes: bool
    ) -> web.StreamResponse:
        if self._in_flight[writes] >= self._max[writes]:
            raise TooManyRequests("too many requests, please try again later", retry_after=1.0)
        self._in_flight[writes] += 1
        try:
            return await self._handle_timed(request, handler, writes=writes)
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large() from error
        finally:
            self._in_flight[writes] -= 1

    async def _handle_timed(
        self, request: web.Request, handler: Handler, *, writes: bool
    ) -> web.StreamResponse:
        scope = asyncio.timeout(self._seconds[writes])
        try:
            async with scope:
                return await handler(request)
        except TimeoutError as error:
            if not scope.expired():
                raise
            message = f"request timed out after {self._seconds[writes]:g}s"
            if writes:
                raise OutcomeUnknown(
                    f"{message}; it may have been applied: read the object before retrying"
                ) from error
            raise web.HTTPGatewayTimeout(text=message, headers={"Retry-After": "1"}) from error

    async def _handle_stream(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._max_streams is not None and len(self._streams) >= self._max_streams:
            raise TooManyRequests("too many watches and logs, please try again later", retry_after=5.0)
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._streams[scope] = None
                try:
                    return await handler(request)
                finally:
                    del self._streams[scope]
        except TimeoutError as error:
            if not scope.expired():
                raise
            stream: web.StreamResponse | None = request.get(_STREAM)
            if stream is None:
                raise Unavailable(_STOPPING) from error
            # aiohttp ends the stream properly, so that the client sees no error.
            return stream


_STREAM = web.RequestKey("stream", web.StreamResponse)


async def record_stream(request: web.Request, response: web.StreamResponse) -> None:
    """For ``on_response_prepare``: records the response of a long-running request, so that a drain can end it."""
    request[_STREAM] = response
