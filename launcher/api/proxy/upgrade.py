"""
Upgraded connections: exec, attach and port-forward over WebSocket or SPDY.

The API server decides about the upgrade, and its response is forwarded. Then bytes are copied in both directions
without being parsed.
"""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import StreamReader, hdrs, web
from aiohttp.http import StreamWriter
from multidict import CIMultiDict

#: Prefixes of the protocols that kubectl uses. Other upgrades, such as HTTP/2, are ignored.
_PROTOCOLS = ("spdy/", "websocket")
#: The buffer of each direction; if it is full, the sender is not read from.
_BUFFER_BYTES = 2**16
SWITCHING_PROTOCOLS = 101


def requested_upgrade(request: web.BaseRequest) -> str | None:
    """Returns the requested protocol if it can be forwarded, or None."""
    protocol = request.headers.get(hdrs.UPGRADE, "")
    return protocol if protocol.lower().startswith(_PROTOCOLS) else None


def set_upgrade(headers: CIMultiDict[str], protocol: str) -> None:
    """Requests the upgrade to *protocol* in *headers*."""
    headers[hdrs.CONNECTION] = "Upgrade"
    headers[hdrs.UPGRADE] = protocol


async def tunnel(request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    """
    Copies bytes between a caller and the API server until either closes the connection.

    *answer* has accepted the upgrade; *response*, the same for the caller, is prepared here.
    """
    connection = answer.connection
    if connection is None or connection.protocol is None:
        raise ConnectionResetError("the API server closed the connection")
    loop, downstream, upstream = asyncio.get_running_loop(), request.protocol, connection.protocol
    from_caller, from_server = (
        StreamReader(side, _BUFFER_BYTES, loop=loop) for side in (downstream, upstream)
    )
    # Set before the caller may send. aiohttp uses it for its own WebSockets; any object with these methods works.
    downstream.set_parser(_Feed(from_caller))  # type: ignore[arg-type]  # as above
    response.headers[hdrs.CONNECTION] = "Upgrade"
    response.force_close()
    await response.prepare(request)
    upstream.set_parser(_Feed(from_server), from_server)
    copies = [
        asyncio.ensure_future(_copy(from_caller, StreamWriter(upstream, loop).write)),
        asyncio.ensure_future(_copy(from_server, request.writer.write)),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copies:
            task.cancel()
        await asyncio.wait(copies)


async def _copy(source: StreamReader, write: Callable[[bytes], Awaitable[None]]) -> None:
    try:
        while chunk := await source.readany():
            await write(chunk)
    except (aiohttp.ClientError, ConnectionError):
        pass  # one side closed the connection; the caller of this closes the other


class _Feed:
    """A parser that only stores the received bytes."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()
