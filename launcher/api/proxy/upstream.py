"""Connections to the API server on behalf of others: with the cluster's trust, and nothing that says who we are."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict
from yarl import URL

from launcher.core.errors import OutcomeUnknown, Unavailable
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import Credentials
from launcher.tls.client_context import ClientTls

log = logging.getLogger(__name__)

#: Seconds in which a connection is made, or not.
_CONNECT = 10.0
#: Certificates on disk are looked at this often, in seconds.
_LOOK_AGAIN = 10.0
#: What waits to be taken by one caller. Beyond that the API server is not read from.
_BUFFER = 2**16
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Nobody listens, or is who it should be: not a byte of the request can have got through.
_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)
#: What aiohttp adds where the caller has said nothing.
_UNASKED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

Body = bytes | AsyncIterator[bytes]


class Upstream:
    """One API server. Who asks it is what the headers of each request say, or else the launcher itself."""

    def __init__(
        self, access: ClusterConfig, tls: ClientTls | None, credentials: Credentials | None = None
    ) -> None:
        """*tls* is what connections are made with; *credentials*, if any, go with every request."""
        self._url, self._tls, self._credentials = access.url, tls, credentials
        self._session: aiohttp.ClientSession | None = None
        self._look_again = 0.0
        self._fixed: dict[str, Any] = {"allow_redirects": False, "proxy": access.proxy}
        if tls is not None and tls.server_name:
            self._fixed["server_hostname"] = tls.server_name

    async def connected(self, _: web.Application) -> AsyncIterator[None]:
        """For ``cleanup_ctx``: requests can be sent while the application runs."""
        self._session = _session(self._tls)
        yield
        await self._session.close()

    @asynccontextmanager
    async def answer(
        self, method: str, path: str, headers: CIMultiDict[str], body: Body | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        The answer to a request, its body still to be read; it ends with the block.

        *path* goes on as it is. Nothing that could change anything is sent twice. Raises Unavailable when the API
        server was not reached, and OutcomeUnknown when what it has done with a change is not known.
        """
        self._refresh()
        if self._credentials is None:
            response = await self._begun(method, path, headers, body)
        else:
            response = await self._begun_as_ourselves(self._credentials, method, path, headers, body)
        try:
            yield response
        finally:
            # Read to its end, it has given back its connection already.
            response.close()

    async def _begun_as_ourselves(
        self,
        credentials: Credentials,
        method: str,
        path: str,
        headers: CIMultiDict[str],
        body: Body | None,
    ) -> aiohttp.ClientResponse:
        own = await credentials.header()
        if own is not None:
            headers[hdrs.AUTHORIZATION] = own
        response = await self._begun(method, path, headers, body)
        if response.status == 401:
            # Ours are meant, and not the caller's, who could do nothing about it. Nothing has been done.
            response.close()
            await credentials.renewed(own)
            raise Unavailable("the API server does not accept the launcher's own credentials")
        return response

    async def _begun(
        self, method: str, path: str, headers: CIMultiDict[str], body: Body | None
    ) -> aiohttp.ClientResponse:
        reads = method in _READS and body is None
        try:
            return await self._once(method, path, headers, body)
        except _NEVER_SENT as error:
            raise self._unreachable(error) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if not reads:
                raise _lost(method, path, error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise (self._unreachable(error) if reads else _lost(method, path, error)) from error
        try:
            # Most likely the connection was closed while nobody used it.
            return await self._once(method, path, headers, body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def _once(
        self, method: str, path: str, headers: CIMultiDict[str], body: Body | None
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "the application runs"
        url = URL(f"{self._url}{path}", encoded=True)
        return await self._session.request(method, url, data=body, headers=headers, **self._fixed)

    def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._tls is None or now < self._look_again:
            return
        self._look_again = now + _LOOK_AGAIN
        try:
            self._tls.refresh()
        except OSError as error:
            log.warning("certificates not read", extra={"why": str(error)})

    def _unreachable(self, error: BaseException) -> Unavailable:
        return Unavailable(f"the API server of the cluster cannot be reached: {_say(error)}")


def _lost(method: str, path: str, error: BaseException) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the API server's answer to {method} {path.partition('?')[0]} was lost ({_say(error)}): "
        "look whether it took effect before sending it again"
    )


def _session(tls: ClientTls | None) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            # How many there may be at once is decided where requests come in.
            limit=0,
            ssl=tls.context if tls is not None else True,
            # Less than after which an API server closes an idle connection.
            keepalive_timeout=30.0,
            socket_factory=_kept_alive,
        ),
        # A watch may be silent for hours; the kernel asks whether the other side is still there.
        timeout=aiohttp.ClientTimeout(None, sock_connect=_CONNECT),
        read_bufsize=_BUFFER,
        # As they come, and so that they go on as they came.
        auto_decompress=False,
        skip_auto_headers=_UNASKED,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    # By itself it sends a PUT or a DELETE again whose answer was lost. There is no other switch.
    session._retry_connection = False  # noqa: SLF001
    return session


def _kept_alive(address: tuple[Any, ...]) -> socket.socket:
    """A socket on which a peer that is gone without a word is noticed within a minute."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__
