"""
How much at once, how large and how long: what a client cannot use up.

A request that is over a limit is refused before it has changed anything, so its client may send it again. What lasts by
nature, a watch or a log, is not timed, and counted by itself; it ends when its client goes or the server drains.
"""

import asyncio
import random
from collections.abc import Callable
from typing import TypedDict

from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.http.request_body import too_large
from launcher.api.middleware.request_info import call_of, is_probe
from launcher.core.errors import OutcomeUnknown, TooManyRequests, Unavailable
from launcher.core.parsing.decoder import MAX_BODY_BYTES

#: Seconds over which watches and logs end when the server drains, so that their clients do not all return at once.
_ENDING = 10.0
_STOPPING = "the server is about to stop; try again in a moment"


class ServerOptions(TypedDict):
    """What ``web.AppRunner`` is told about connections."""

    max_line_size: int
    max_field_size: int
    keepalive_timeout: float
    lingering_time: float
    auto_decompress: bool
    handler_cancellation: bool


#: The application itself is made with ``client_max_size=MAX_BODY_BYTES``.
SERVER_OPTIONS = ServerOptions(
    # Long selectors and tokens fit.
    max_line_size=64 * 1024,
    max_field_size=64 * 1024,
    # Also how long the head of a request may take, counted from the end of the one before.
    keepalive_timeout=60.0,
    # How long the rest of a refused body is read, so that its sender gets to see the answer.
    lingering_time=5.0,
    # A body that unpacks itself can be small and still become any size.
    auto_decompress=False,
    # Nobody works for a client that has gone, and a watch notices that way.
    handler_cancellation=True,
)


class RequestLimits:
    """
    Counts and times requests. At most *reads* and *writes* at once; each has so many seconds, body and all.

    And at most so many *streams*, which have all the time in the world. What is *free* is let through at any time.
    """

    def __init__(
        self,
        *,
        reads: int = 400,
        writes: int = 200,
        read_seconds: float = 60.0,
        write_seconds: float = 34.0,
        streams: int | None = None,
        free: Callable[[web.BaseRequest], bool] = is_probe,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._most = {False: reads, True: writes}
        self._seconds = {False: read_seconds, True: write_seconds}
        self._under_way = {False: 0, True: 0}
        self._most_streams, self._free = streams, free
        self._chance = chance
        self._draining = False
        self._lasting: dict[asyncio.Timeout, None] = {}

    def drain(self, within: float = _ENDING) -> None:
        """
        From now on refuse what is new, and end what lasts, each at a moment of its own *within* so many seconds.

        Called again, it hurries: the new times hold.
        """
        self._draining = True
        now = asyncio.get_running_loop().time()
        for scope in self._lasting:
            if not scope.expired():
                scope.reschedule(now + within * self._chance())

    async def not_draining(self) -> None:
        """A check for ``/readyz``. Raises Unavailable while the server drains."""
        if self._draining:
            raise Unavailable(_STOPPING)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._free(request):
            return await handler(request)
        await self.not_draining()
        call = call_of(request)
        if call.long_running:
            return await self._ended_by_drain(request, handler)
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large()
        return await self._counted(request, handler, writes=call.writes)

    async def _counted(self, request: web.Request, handler: Handler, *, writes: bool) -> web.StreamResponse:
        if self._under_way[writes] >= self._most[writes]:
            raise TooManyRequests("too many requests at once; try again in a second", retry_after=1.0)
        self._under_way[writes] += 1
        try:
            return await self._timed(request, handler, writes=writes)
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large() from error
        finally:
            self._under_way[writes] -= 1

    async def _timed(self, request: web.Request, handler: Handler, *, writes: bool) -> web.StreamResponse:
        scope = asyncio.timeout(self._seconds[writes])
        try:
            async with scope:
                return await handler(request)
        except TimeoutError as error:
            if not scope.expired():
                raise
            message = f"the request took longer than {self._seconds[writes]:g} seconds"
            if writes:
                raise OutcomeUnknown(
                    f"{message}; look whether it took effect before sending it again"
                ) from error
            raise web.HTTPGatewayTimeout(text=message, headers={"Retry-After": "1"}) from error

    async def _ended_by_drain(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._most_streams is not None and len(self._lasting) >= self._most_streams:
            raise TooManyRequests("too many watches and logs at once; try again later", retry_after=5.0)
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._lasting[scope] = None
                try:
                    return await handler(request)
                finally:
                    del self._lasting[scope]
        except TimeoutError as error:
            if not scope.expired():
                raise
            stream: web.StreamResponse | None = request.get(_STREAM)
            if stream is None:
                raise Unavailable(_STOPPING) from error
            # Returned, it is brought to its end: the client sees that nothing broke.
            return stream


_STREAM = web.RequestKey("stream", web.StreamResponse)


async def note_stream(request: web.Request, response: web.StreamResponse) -> None:
    """For ``on_response_prepare``: remember what a lasting request is answered with, to end it well."""
    request[_STREAM] = response
