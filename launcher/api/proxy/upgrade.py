"""
Connections that change what they speak: exec, attach and port-forward, over WebSocket or SPDY.

The API server decides whether it changes; its answer goes back like any other. From then on bytes go both ways as they
come, and nobody here reads them.
"""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import StreamReader, hdrs, web
from aiohttp.http import StreamWriter
from multidict import CIMultiDict

#: Beginnings of what kubectl changes to. Other wishes, such as HTTP/2, may be passed over.
_PASSED_ON = ("spdy/", "websocket")
#: What waits to be taken by either side; beyond that the other one is not read from.
_BUFFER = 2**16
#: The code of an answer that says yes.
SWITCHED = 101


def wish_of(request: web.BaseRequest) -> str | None:
    """What the connection is to change to, if that can be passed on."""
    wish = request.headers.get(hdrs.UPGRADE, "")
    return wish if wish.lower().startswith(_PASSED_ON) else None


def ask(headers: CIMultiDict[str], wish: str) -> None:
    """Say in *headers* what the connection is to change to."""
    headers[hdrs.CONNECTION] = "Upgrade"
    headers[hdrs.UPGRADE] = wish


async def tunnel(request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    """
    Pass bytes both ways between a caller and the API server until either of them ends it.

    *answer* has said yes, and *response*, which says so to the caller, is prepared here.
    """
    connection = answer.connection
    if connection is None or connection.protocol is None:
        raise ConnectionResetError("the API server has left")
    loop, below, above = asyncio.get_running_loop(), request.protocol, connection.protocol
    from_caller, from_server = (StreamReader(side, _BUFFER, loop=loop) for side in (below, above))
    # Before the caller knows that it may speak. aiohttp has this way for its own WebSockets; whatever reads will do.
    below.set_parser(_Feed(from_caller))  # type: ignore[arg-type]  # as above
    response.headers[hdrs.CONNECTION] = "Upgrade"
    response.force_close()
    await response.prepare(request)
    above.set_parser(_Feed(from_server), from_server)
    pumps = [
        asyncio.ensure_future(_pump(from_caller, StreamWriter(above, loop).write)),
        asyncio.ensure_future(_pump(from_server, request.writer.write)),
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)


async def _pump(source: StreamReader, write: Callable[[bytes], Awaitable[None]]) -> None:
    try:
        while piece := await source.readany():
            await write(piece)
    except (aiohttp.ClientError, ConnectionError):
        pass  # one side has left; then the other is left, too


class _Feed:
    """Reads nothing out of what comes: it is kept until it is fetched."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()
