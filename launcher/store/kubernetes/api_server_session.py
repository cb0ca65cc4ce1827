"""HTTP session with one API server, used by the store's client and by the proxy."""

import asyncio
import logging
import socket
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from launcher.core.errors import LauncherError, OutcomeUnknown, Unavailable
from launcher.store import instrumentation
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.tls.client_context import ClientTls

log = logging.getLogger(__name__)

#: All errors of a request that has no complete response.
TRANSPORT_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
#: No byte of the request can have been received by the API server.
_NOT_SENT_ERRORS = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)
#: Most likely an idle connection that the server had closed.
_BROKEN_CONNECTION_ERRORS = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_CERTIFICATE_CHECK_SECONDS = 10.0
#: Shorter than the time after which an API server closes an idle connection.
_KEEPALIVE_SECONDS = 30.0


class ApiServerSession:
    """
    Connections to one API server. Certificates on disk are reloaded when they change.

    A request that mutates is never sent twice. Another one is sent once more if its connection broke.
    """

    def __init__(
        self,
        config: ClusterConfig,
        tls: ClientTls | None,
        *,
        name: str,
        connections: int,
        timeout: aiohttp.ClientTimeout,
        **options: Any,
    ) -> None:
        """
        Needs a running event loop. *name* is how errors call the server; 0 *connections* means no limit.

        *tls* may be without the launcher's client certificate. *options* are passed to ``aiohttp.ClientSession``.
        """
        self._url, self._tls, self._name = config.url, tls, name
        self._check_certificates_at = 0.0
        self._request_options: dict[str, Any] = {"allow_redirects": False, "proxy": config.proxy}
        if tls is not None and tls.server_name:
            self._request_options["server_hostname"] = tls.server_name
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections,
                ssl=tls.context if tls is not None else True,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                socket_factory=_keepalive_socket,
            ),
            timeout=timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            **options,
        )
        # aiohttp sends a PUT or DELETE again if its response was lost; a write that took effect would then be
        # reported as a conflict. There is no public switch.
        self._session._retry_connection = False  # noqa: SLF001

    async def close(self) -> None:
        await self._session.close()

    async def request(
        self, method: str, path: str, *, mutates: bool, headers: Mapping[str, str], data: Any = None
    ) -> aiohttp.ClientResponse:
        """
        Returns the response, with its body still to be read. *path* is already encoded.

        Raises Unavailable if the request had no effect, and OutcomeUnknown if that is not known.
        """
        self._refresh_certificates()
        url = URL(f"{self._url}{path}", encoded=True)
        started = time.monotonic()
        try:
            try:
                return await self._session.request(
                    method, url, data=data, headers=headers, **self._request_options
                )
            except _BROKEN_CONNECTION_ERRORS as error:
                if mutates or isinstance(error, _NOT_SENT_ERRORS):
                    raise
            return await self._session.request(
                method, url, data=data, headers=headers, **self._request_options
            )
        except TRANSPORT_ERRORS as error:
            raise self.to_error(error, method, path, mutates=mutates) from error
        finally:
            instrumentation.request_completed(method, time.monotonic() - started)

    def to_error(self, error: BaseException, method: str, path: str, *, mutates: bool) -> LauncherError:
        """Translates one of TRANSPORT_ERRORS of a request."""
        text = str(error) or type(error).__name__
        if mutates and not isinstance(error, _NOT_SENT_ERRORS):
            return OutcomeUnknown(
                f"{method} {path.partition('?')[0]}: the response of the API server was lost ({text}): "
                "the request may have been applied; read the object before retrying"
            )
        return Unavailable(f"{self._name} cannot be reached: {text}")

    def _refresh_certificates(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._tls is None or now < self._check_certificates_at:
            return
        self._check_certificates_at = now + _CERTIFICATE_CHECK_SECONDS
        try:
            self._tls.refresh()
        except OSError as error:
            log.warning("certificates not reloaded", extra={"error": str(error)})


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """Returns a socket on which the kernel detects a dead peer within a minute."""
    family, kind, protocol, _, _ = address
    result = socket.socket(family, kind, protocol)
    result.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
        result.setsockopt(socket.IPPROTO_TCP, option, value)
    return result
