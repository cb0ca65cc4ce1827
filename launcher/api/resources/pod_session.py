"""What exec, attach and port-forward have in common: a WebSocket that stays open, and lines for audits."""

import asyncio
import logging
import select
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from aiohttp import hdrs, web

from launcher.core.errors import BadRequest

log = logging.getLogger(__name__)
# The start and the end of each session are logged for audits, without --verbose too.
log.setLevel(logging.INFO)

#: Time between two checks whether the client has closed the connection.
_CHECK_SECONDS = 1.0
#: A client that no longer responds is detected after about two minutes, by the kernel.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


def check_upgrade(request: web.Request, protocols: Sequence[str], spdy_error: str) -> None:
    """Raises BadRequest unless the client opens a WebSocket with one of *protocols*."""
    upgrade = request.headers.get(hdrs.UPGRADE, "").lower()
    if upgrade.startswith("spdy/"):
        raise BadRequest(spdy_error)
    if upgrade != "websocket" or request.method != "GET":
        raise BadRequest("Upgrade request required")
    offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(",")
    if not {each.strip() for each in offered} & set(protocols):
        raise BadRequest(f"Sec-WebSocket-Protocol must be one of: {', '.join(protocols)}")


@contextmanager
def logged_session(
    request: web.Request,
    logged: Mapping[str, object],
    clock: Callable[[], float],
    result: Callable[[], str],
) -> Iterator[None]:
    """Logs the start and the end of a session with *logged*, and the end with its *result*."""
    fields = {**logged, "client": request.remote or "unix"}
    log.info("session started", extra=fields)
    started = clock()
    try:
        yield
    finally:
        seconds = round(clock() - started, 3)
        log.info("session ended", extra=fields | {"result": result(), "seconds": seconds})


def detect_lost_client(request: web.Request) -> None:
    """Lets the kernel probe the connection, which may be idle for hours."""
    connection = request.get_extra_info("socket")
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        for option, value in _KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


async def until_disconnected(request: web.Request) -> None:
    """
    Returns when the client has closed the connection.

    The connection is not read while its data cannot be passed on, so aiohttp would not notice it.
    """
    poll = select.poll()
    poll.register(request.get_extra_info("socket").fileno(), select.POLLRDHUP)
    while not poll.poll(0):  # noqa: ASYNC110 - no event: asyncio does not watch for the end of what it does not read
        await asyncio.sleep(_CHECK_SECONDS)
