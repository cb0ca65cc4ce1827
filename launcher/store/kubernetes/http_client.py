"""JSON over HTTP to one API server: calls, and streams that stay open."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from launcher.core.errors import OutcomeUnknown, TooLarge, Unavailable
from launcher.store.interface import Object
from launcher.store.kubernetes.api_errors import refusal, to_error
from launcher.store.kubernetes.cluster_config import ClusterConfig

#: They stand last in the metadata of what is built in, right before the spec. Within a string every quotation mark has
#: a backslash before it, so nothing that a user writes looks like these.
_MANAGERS, _SPEC = b',"managedFields":[', b'"spec":{'


def strip_managed_fields(text: bytes) -> bytes:
    """*text* of one object, shorter where that is easily had; it says the same of all but them."""
    spec = text.find(_SPEC)
    begin = text.find(_MANAGERS, 0, spec) if spec > 0 else -1
    if begin < 0 or text[spec - 3 : spec] != b"]},":
        return text
    return text[:begin] + text[spec - 2 :]


log = logging.getLogger(__name__)

#: The API server reads no more of a body.
MOST_BYTES = 3 * 1024 * 1024
#: A larger body is sent piece by piece, so that others get their turn.
_AT_ONCE = 2**20
#: Seconds for which a stream is left alone after each piece; what comes first is told at once.
_BREATH = 0.1
#: Certificates on disk are looked at this often, in seconds.
_LOOK_AGAIN = 10.0
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "framework-launcher"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds."""

    connect: float = 10.0
    #: A whole call; the API server itself gives up on one after 60.
    call: float = 65.0
    #: Silence on a stream. Bookmarks come every minute or so: whoever is silent for longer is not there any more.
    silence: float = 90.0


PATIENCE = Timeouts()

#: An object, or the operations of a patch.
Body = Object | list[Object]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. *changes* says whether it would leave a trace."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    media: str = "application/json"
    mutates: bool = True

    @classmethod
    def reading(cls, path: str, query: Mapping[str, str]) -> "ApiRequest":
        return cls("GET", path, query, mutates=False)


class ApiServerClient:
    """
    Speaks with one API server.

    A call either gives the server's answer or raises one of our errors. Nothing that could change anything is sent
    twice: when its answer is lost, that is OutcomeUnknown.
    """

    def __init__(self, access: ClusterConfig, connections: int, patience: Timeouts) -> None:
        """Up to so many *connections* for calls; every stream has one of its own. Needs a running loop."""
        self._access = access
        self._calls = _session(access, connections, aiohttp.ClientTimeout(patience.call, patience.connect))
        self._streams = _session(
            access, 0, aiohttp.ClientTimeout(None, patience.connect, sock_read=patience.silence)
        )
        self._look_again = 0.0
        self._fixed: dict[str, Any] = {"allow_redirects": False, "proxy": access.proxy}
        if access.tls is not None and access.tls.server_name:
            self._fixed["server_hostname"] = access.tls.server_name

    async def close(self) -> None:
        """Let go of every connection; streams that are being read end."""
        await self._calls.close()
        await self._streams.close()

    async def call(self, call: ApiRequest) -> Object:
        """The answer, read."""
        body = None if call.body is None else _encoded(call.body)
        try:
            status, headers, text = await self._answered(call, body)
        except _NEVER_SENT as error:
            raise self._unreachable(error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if call.mutates:
                raise OutcomeUnknown(
                    f"{call.method} {call.path}: its answer was lost: {_say(error)}"
                ) from error
            raise self._unreachable(error) from error
        if status >= 300:
            raise to_error(refusal(status, text, headers.get("Retry-After")), changes=call.mutates)
        return _read(text, call)

    async def _answered(self, call: ApiRequest, body: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """As ``_once``; asked again with other credentials if these are refused, and after a break if it only reads."""
        authorization = await self._authorization()
        try:
            answer = await self._once(call, body, authorization)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            # Most likely a connection that was closed while nobody used it.
            if call.mutates or isinstance(error, _NEVER_SENT):
                raise
            answer = await self._once(call, body, authorization)
        if answer[0] == 401 and await self._access.credentials.renewed(authorization):
            answer = await self._once(call, body, await self._authorization())
        return answer

    async def _once(
        self, call: ApiRequest, body: bytes | None, authorization: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = _headers(authorization, call.media if body is not None else None)
        data = BytesIO(body) if body is not None and len(body) > _AT_ONCE else body
        async with self._calls.request(
            call.method, self._url(call), data=data, headers=headers, **self._fixed
        ) as response:
            return response.status, response.headers, await response.read()

    async def stream(self, call: ApiRequest) -> AsyncGenerator[bytes, None]:
        """
        The answer as it comes, until the server ends it, is silent for too long, or is gone.

        Raises Unavailable, or what the server says, when it does not begin.
        """
        response = await self._begun(call)
        try:
            while piece := await _piece(response):
                yield piece
                await _coalesce_reads(response)
        finally:
            response.close()

    async def _begun(self, call: ApiRequest) -> aiohttp.ClientResponse:
        try:
            authorization = await self._authorization()
            response = await self._open(call, authorization)
            if response.status == 401 and await self._access.credentials.renewed(authorization):
                response.close()
                response = await self._open(call, await self._authorization())
            if response.status >= 300:
                text = await response.read()
                told = refusal(response.status, text, response.headers.get("Retry-After"))
                raise to_error(told, changes=False)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        return response

    async def _open(self, call: ApiRequest, authorization: str | None) -> aiohttp.ClientResponse:
        headers = _headers(authorization, None)
        return await self._streams.request(call.method, self._url(call), headers=headers, **self._fixed)

    async def _authorization(self) -> str | None:
        now = asyncio.get_running_loop().time()
        if now >= self._look_again and self._access.tls is not None:
            self._look_again = now + _LOOK_AGAIN
            try:
                self._access.tls.refresh()
            except OSError as error:
                log.warning("certificates not read", extra={"why": str(error)})
        return await self._access.credentials.header()

    def _url(self, call: ApiRequest) -> URL:
        query = f"?{urlencode(call.query)}" if call.query else ""
        return URL(f"{self._access.url}{call.path}{query}", encoded=True)

    def _unreachable(self, error: BaseException) -> Unavailable:
        return Unavailable(f"{self._access.url} cannot be reached: {_say(error)}")


#: No byte of the request can have got through.
_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)


async def _coalesce_reads(response: aiohttp.ClientResponse) -> None:
    """Let what comes on this stream gather for a moment: one by one, it costs several times as much to take in."""
    transport = response.connection.transport if response.connection is not None else None
    if not isinstance(transport, asyncio.Transport):
        return  # it is over, and what is left of it is here already
    transport.pause_reading()
    try:
        await asyncio.sleep(_BREATH)
    finally:
        transport.resume_reading()


async def _piece(response: aiohttp.ClientResponse) -> bytes:
    """What comes next; nothing at the end, however it came: whoever reads a stream goes on with another."""
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, TimeoutError, OSError, RuntimeError):
        # The last is what aiohttp raises for a connection that was closed between two reads.
        return b""


def _session(
    access: ClusterConfig, connections: int, timeout: aiohttp.ClientTimeout
) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections,
            ssl=access.tls.context if access.tls is not None else True,
            # Less than after which an API server closes an idle connection.
            keepalive_timeout=30.0,
        ),
        headers=_HEADERS,
        timeout=timeout,
        read_bufsize=2**18,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    # By itself it sends a PUT or a DELETE again whose answer was lost, and a write of ours that got through would come
    # back as a conflict with somebody else. There is no other switch.
    session._retry_connection = False  # noqa: SLF001
    return session


def _headers(authorization: str | None, media: str | None) -> dict[str, str]:
    headers = {}
    if authorization is not None:
        headers["Authorization"] = authorization
    if media is not None:
        headers["Content-Type"] = media
    return headers


def _encoded(body: Body) -> bytes:
    text = orjson.dumps(body)
    if len(text) > MOST_BYTES:
        raise TooLarge(
            f"the request has {len(text)} bytes, and the API server takes {MOST_BYTES} at the most"
        )
    return text


def _read(text: bytes, call: ApiRequest) -> Object:
    try:
        # Whoever writes gets one object back; of a list, only the first would be shorter.
        answer = orjson.loads(strip_managed_fields(text) if call.mutates else text)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        # A proxy's page, perhaps; whether the API server was ever asked is not known.
        message = f"{call.method} {call.path}: the answer is no JSON object"
        raise OutcomeUnknown(message) if call.mutates else Unavailable(message)
    return answer


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__
