"""Requests to the API server on behalf of callers, without the launcher's own identity unless it is configured."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.core.errors import Unavailable
from launcher.core.json_access import as_object
from launcher.store.kubernetes.api_server_session import ApiServerSession
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import Credentials
from launcher.tls.client_context import ClientTls

_CONNECT_TIMEOUT_SECONDS = 10.0
#: Buffer per response. When it is full, no more is read from the API server.
_READ_BUFFER_BYTES = 2**16
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Headers that aiohttp would add if the caller did not send them.
_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

Body = bytes | AsyncIterator[bytes]


class Upstream:
    """The API server behind the proxy. The caller is identified by the headers of each request."""

    def __init__(
        self, access: ClusterConfig, tls: ClientTls | None, credentials: Credentials | None = None
    ) -> None:
        """*tls* is used for all connections; *credentials*, if any, are sent with every request."""
        self._access, self._tls, self._credentials = access, tls, credentials
        self._session: ApiServerSession | None = None

    async def connected(self, _: web.Application) -> AsyncIterator[None]:
        """Opens the session while the application runs; for ``cleanup_ctx``."""
        self._session = ApiServerSession(
            self._access,
            self._tls,
            name="the API server of the cluster",
            # Concurrency is limited where requests arrive.
            connections=0,
            # A watch may be silent for hours; the kernel detects a dead peer.
            timeout=aiohttp.ClientTimeout(None, sock_connect=_CONNECT_TIMEOUT_SECONDS),
            read_bufsize=_READ_BUFFER_BYTES,
            # Bodies are forwarded as they are received.
            auto_decompress=False,
            skip_auto_headers=_AUTO_HEADERS,
        )
        yield
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        headers: CIMultiDict[str],
        body: bytes | None = None,
        *,
        timeout_seconds: float,
    ) -> tuple[int, dict[str, Any]]:
        """Returns the status code and the JSON object of the response, which may be a Status. Raises Unavailable."""
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self.answer(method, path, headers, body) as answer,
            ):
                return answer.status, as_object(orjson.loads(await answer.read()))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable("no response from the API server") from error

    @asynccontextmanager
    async def answer(
        self, method: str, path: str, headers: CIMultiDict[str], body: Body | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        Sends a request and yields the response, with its body still to be read; closes it at the end of the block.

        *path* is forwarded unchanged. Requests that mutate are never sent twice. Raises Unavailable if the API server
        was not reached, and OutcomeUnknown if it is not known whether a change was applied.
        """
        assert self._session is not None, "no session: the application is not started"
        own = await self._credentials.header() if self._credentials is not None else None
        if own is not None:
            headers[hdrs.AUTHORIZATION] = own
        mutates = method not in _READ_METHODS or body is not None
        response = await self._session.request(method, path, mutates=mutates, headers=headers, data=body)
        try:
            if response.status == 401 and self._credentials is not None:
                # The caller cannot correct the launcher's credentials. The request had no effect.
                await self._credentials.refresh(own)
                raise Unavailable("the API server does not accept the launcher's own credentials")
            yield response
        finally:
            # A response that was read completely has returned its connection already.
            response.close()


#: Returns the upstream for a request, with the caller's credentials in the headers. Raises HTTPUnauthorized.
Authenticate = Callable[[web.Request, CIMultiDict[str]], Upstream]
#: Returns the headers of a request that are forwarded.
Headers = Callable[[web.Request], CIMultiDict[str]]


def json_headers(headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """Returns the *headers* of a caller for a request of the launcher on its behalf, which sends and accepts JSON."""
    for name in (hdrs.CONTENT_TYPE, hdrs.CONTENT_LENGTH, hdrs.IF_NONE_MATCH):
        headers.popall(name, None)
    headers[hdrs.ACCEPT], headers[hdrs.ACCEPT_ENCODING] = "application/json", "identity"
    return headers
