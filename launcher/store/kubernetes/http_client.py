"""JSON client of one API server: calls, and streams that stay open."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from urllib.parse import urlencode

import aiohttp
import orjson

from launcher.core.errors import OutcomeUnknown, TooLarge, TooManyRequests, Unavailable
from launcher.store.interface import Object
from launcher.store.kubernetes.api_errors import error_response, to_error
from launcher.store.kubernetes.api_server_session import TRANSPORT_ERRORS, ApiServerSession
from launcher.store.kubernetes.cluster_config import ClusterConfig

#: In built-in objects managedFields is the last field of the metadata, right before the spec. Quotation marks within
#: strings are escaped, so no text of a user matches these.
_MANAGED_FIELDS, _SPEC = b',"managedFields":[', b'"spec":{'


def strip_managed_fields(text: bytes) -> bytes:
    """Returns the JSON of an object without its managedFields, if they can be removed without parsing it."""
    spec = text.find(_SPEC)
    begin = text.find(_MANAGED_FIELDS, 0, spec) if spec > 0 else -1
    if begin < 0 or text[spec - 3 : spec] != b"]},":
        return text
    return text[:begin] + text[spec - 2 :]


#: The request size limit of the API server.
MAX_BODY_BYTES = 3 * 1024 * 1024
#: A larger body is sent in chunks, so that the event loop runs other tasks in between.
_CHUNKED_BODY_BYTES = 2**20
#: Seconds for which a stream is not read after each chunk; the first chunk is returned at once.
_COALESCE_SECONDS = 0.1
_READ_BUFFER_BYTES = 2**18
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "framework-launcher"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds."""

    connect: float = 10.0
    #: Of a whole call; the API server times out after 60.
    call: float = 65.0
    #: Without data on a stream. Bookmarks arrive about every minute.
    silence: float = 90.0


DEFAULT_TIMEOUTS = Timeouts()

#: An object, or the operations of a patch.
Body = Object | list[Object]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. *mutates* is False for reads and dry runs."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    content_type: str = "application/json"
    mutates: bool = True

    @classmethod
    def get(cls, path: str, query: Mapping[str, str]) -> "ApiRequest":
        return cls("GET", path, query, mutates=False)

    @property
    def path_and_query(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class ApiServerClient:
    """
    Client of one API server, with the launcher's credentials.

    A call returns the server's response or raises one of our errors. Requests that mutate are never sent twice: if the
    response is lost, OutcomeUnknown is raised.
    """

    def __init__(self, config: ClusterConfig, connections: int, timeouts: Timeouts) -> None:
        """Calls share up to *connections*; every stream has its own. Needs a running event loop."""
        self._credentials = config.credentials
        self._throttled_until = 0.0
        self._calls = ApiServerSession(
            config,
            config.tls,
            name=config.url,
            connections=connections,
            timeout=aiohttp.ClientTimeout(timeouts.call, timeouts.connect),
            read_bufsize=_READ_BUFFER_BYTES,
            headers=_HEADERS,
        )
        self._streams = ApiServerSession(
            config,
            config.tls,
            name=config.url,
            connections=0,
            timeout=aiohttp.ClientTimeout(None, timeouts.connect, sock_read=timeouts.silence),
            read_bufsize=_READ_BUFFER_BYTES,
            headers=_HEADERS,
        )

    async def close(self) -> None:
        """Closes all connections; open streams end."""
        await self._calls.close()
        await self._streams.close()

    async def call(self, request: ApiRequest) -> Object:
        """Returns the parsed response."""
        body = None if request.body is None else _encode(request.body)
        authorization = await self._credentials.header()
        status, headers, text = await self._send(request, body, authorization)
        if status == 401 and await self._credentials.refresh(authorization):
            status, headers, text = await self._send(request, body, await self._credentials.header())
        if status >= 300:
            error = to_error(
                error_response(status, text, headers.get("Retry-After")), mutates=request.mutates
            )
            if isinstance(error, TooManyRequests):
                self._throttled_until = max(self._throttled_until, time.monotonic() + error.retry_after)
            raise error
        return _parse(text, request)

    @property
    def throttled_seconds(self) -> float:
        """Seconds until calls are welcome again, as the server requested with Retry-After; 0 if they are."""
        return max(0.0, self._throttled_until - time.monotonic())

    async def _send(
        self, request: ApiRequest, body: bytes | None, authorization: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        response = await self._calls.request(
            request.method,
            request.path_and_query,
            mutates=request.mutates,
            headers=_headers(authorization, request.content_type if body is not None else None),
            data=BytesIO(body) if body is not None and len(body) > _CHUNKED_BODY_BYTES else body,
        )
        try:
            async with response:
                return response.status, response.headers, await response.read()
        except TRANSPORT_ERRORS as error:
            raise self._calls.to_error(
                error, request.method, request.path, mutates=request.mutates
            ) from error

    async def stream(self, request: ApiRequest) -> AsyncGenerator[bytes, None]:
        """
        Yields the response in chunks until the server closes it, sends nothing for too long, or the connection breaks.

        Raises Unavailable or the server's error if the stream does not start.
        """
        response = await self._open_stream(request)
        try:
            while chunk := await _next_chunk(response):
                yield chunk
                await _coalesce_reads(response)
        finally:
            response.close()

    @asynccontextmanager
    async def download(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """
        Opens the response, and yields its chunks, without delay.

        Raises like ``stream`` if it does not start. Unlike there, an interruption raises Unavailable.
        """
        response = await self._open_stream(request)
        try:
            yield self._chunks(response, request)
        finally:
            response.close()

    async def _chunks(
        self, response: aiohttp.ClientResponse, request: ApiRequest
    ) -> AsyncGenerator[bytes, None]:
        try:
            while chunk := await response.content.readany():
                yield chunk
        except (*TRANSPORT_ERRORS, RuntimeError) as error:
            # aiohttp raises RuntimeError for a connection that was closed between two reads.
            raise self._streams.to_error(error, request.method, request.path, mutates=False) from error

    async def _open_stream(self, request: ApiRequest) -> aiohttp.ClientResponse:
        authorization = await self._credentials.header()
        response = await self._request_stream(request, authorization)
        if response.status == 401 and await self._credentials.refresh(authorization):
            response.close()
            response = await self._request_stream(request, await self._credentials.header())
        if response.status >= 300:
            try:
                text = await response.read()
            except TRANSPORT_ERRORS as error:
                raise self._streams.to_error(error, request.method, request.path, mutates=False) from error
            failure = error_response(response.status, text, response.headers.get("Retry-After"))
            raise to_error(failure, mutates=False)
        return response

    async def _request_stream(self, request: ApiRequest, authorization: str | None) -> aiohttp.ClientResponse:
        return await self._streams.request(
            request.method, request.path_and_query, mutates=False, headers=_headers(authorization, None)
        )


async def _coalesce_reads(response: aiohttp.ClientResponse) -> None:
    """Pauses reading for a moment: parsing several events at once is several times cheaper."""
    transport = response.connection.transport if response.connection is not None else None
    if not isinstance(transport, asyncio.Transport):
        return  # closed; the rest has been received
    transport.pause_reading()
    try:
        await asyncio.sleep(_COALESCE_SECONDS)
    finally:
        transport.resume_reading()


async def _next_chunk(response: aiohttp.ClientResponse) -> bytes:
    """Returns the next chunk, empty at the end. Errors count as the end: the caller opens another stream."""
    try:
        return await response.content.readany()
    except (*TRANSPORT_ERRORS, RuntimeError):
        # aiohttp raises RuntimeError for a connection that was closed between two reads.
        return b""


def _headers(authorization: str | None, content_type: str | None) -> dict[str, str]:
    headers = {}
    if authorization is not None:
        headers["Authorization"] = authorization
    if content_type is not None:
        headers["Content-Type"] = content_type
    return headers


def _encode(body: Body) -> bytes:
    text = orjson.dumps(body)
    if len(text) > MAX_BODY_BYTES:
        raise TooLarge(f"the request has {len(text)} bytes; the limit of the API server is {MAX_BODY_BYTES}")
    return text


def _parse(text: bytes, request: ApiRequest) -> Object:
    try:
        # Writes return one object; of a list only the first item would be stripped.
        response = orjson.loads(strip_managed_fields(text) if request.mutates else text)
    except orjson.JSONDecodeError:
        response = None
    if not isinstance(response, dict):
        # Possibly a page of a proxy; whether the API server received the request is not known.
        message = f"{request.method} {request.path}: the response is not a JSON object"
        raise OutcomeUnknown(message) if request.mutates else Unavailable(message)
    return response
