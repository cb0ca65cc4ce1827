"""Forwards requests to the API server with the caller's credentials, and its responses unchanged."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus

import aiohttp
import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy

from launcher.api.http.request_body import convert_decoded, decode, read_body
from launcher.api.http.request_options import lists_only, name_options
from launcher.api.http.request_types import APPLY
from launcher.api.http.warnings import warning_headers
from launcher.api.middleware.request_info import request_info
from launcher.api.proxy.admission import ProxyAdmission, ResourcePath, check_path, parse_resource_path
from launcher.api.proxy.api_group_alias import Alias, accept_convertible, resolve_alias
from launcher.api.proxy.authentication import check_token, client_certificate, impersonate
from launcher.api.proxy.upgrade import SWITCHING_PROTOCOLS, requested_upgrade, set_upgrade, tunnel
from launcher.api.proxy.upstream import Body, Upstream
from launcher.api.resources.job_owned import deletion_warnings
from launcher.core.errors import LauncherError, RequestError
from launcher.core.json_access import as_object
from launcher.core.parsing.decoder import Media
from launcher.core.serialization.frameworkcontroller import SECOND_API_VERSION
from launcher.store.interface import FRAMEWORKS

#: Hop-by-hop headers.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
#: Set by the client session; the proxy itself responds to Expect.
_NOT_FORWARDED = frozenset({"host", "content-length", "expect"})
#: Headers by which a trusted proxy authenticates users to kube-apiserver; callers must not send them.
_AUTHENTICATING_PROXY = "x-remote-"
#: Audit logs contain the address of the caller from this header.
_FORWARDED_FOR = "X-Forwarded-For"


def upstream_headers(headers: CIMultiDictProxy[str], caller: str | None) -> CIMultiDict[str]:
    """Returns the forwarded *headers* of a request in their order; *caller* is its remote address."""
    removed = _hop_by_hop(headers) | _NOT_FORWARDED
    forwarded = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (lower := name.lower()) not in removed and not lower.startswith(_AUTHENTICATING_PROXY)
    )
    if caller is not None:
        forwarded[_FORWARDED_FOR] = ", ".join([*forwarded.popall(_FORWARDED_FOR, []), caller])
    return forwarded


def response_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Returns the forwarded *headers* of a response."""
    removed = _hop_by_hop(headers)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in removed)


def _hop_by_hop(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    """Returns the hop-by-hop headers, including those that Connection names."""
    connection = headers.getall(hdrs.CONNECTION, ())
    return _HOP_BY_HOP | frozenset(_tokens(connection)) if connection else _HOP_BY_HOP


def _tokens(values: Iterable[str]) -> Iterable[str]:
    return (token.strip().lower() for value in values for token in value.split(","))


#: A caller that reads nothing for this time is disconnected.
_WRITE_SECONDS = 60.0
#: The timeout for reading the Framework that a request deletes.
_READ_SECONDS = 5.0
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_WARNING = "Warning"


class ForwardedResponse(web.StreamResponse):
    """A response of the API server, to which no headers are added."""


class ProxyHandler:
    """Forwards requests and validates Frameworks."""

    def __init__(
        self,
        forwarding: Upstream,
        impersonating: Upstream | None,
        admission: ProxyAdmission,
        *,
        api_group_alias: bool,
    ) -> None:
        """
        *forwarding* sends requests with the caller's credentials.

        *impersonating*, if given, sends requests of callers with a client certificate.
        """
        self._forwarding, self._impersonating, self._admission = forwarding, impersonating, admission
        self._api_group_alias = api_group_alias

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Returns the API server's response to any request."""
        if request.method not in _METHODS:
            raise web.HTTPMethodNotAllowed(request.method, _METHODS)
        check_path(request)
        _check_name_options(request)
        headers = upstream_headers(request.headers, request.remote)
        upstream = self.authenticate(request, headers)
        if (protocol := requested_upgrade(request)) is not None:
            set_upgrade(headers, protocol)
            return await _forward(upstream, request, headers, None, ())
        alias = resolve_alias(request) if self._api_group_alias else None
        if alias is not None:
            accept_convertible(headers)
        path = request.rel_url.raw_path if alias is None else alias.path.partition("?")[0]
        resource = parse_resource_path(path)
        body, warnings = await self._body(request, headers, resource, alias)
        if request.method == "DELETE" and resource is not None:
            warnings = await _deletion_warnings(upstream, path, resource, headers)
        return await _forward(upstream, request, headers, body, warnings, alias)

    def authenticate(self, request: web.Request, headers: CIMultiDict[str]) -> Upstream:
        """Returns the upstream for *request*, with credentials in *headers*. Raises HTTPUnauthorized."""
        if self._impersonating is not None and (certificate := client_certificate(request)) is not None:
            impersonate(request, headers, certificate)
            return self._impersonating
        check_token(headers)
        return self._forwarding

    async def _body(
        self,
        request: web.Request,
        headers: CIMultiDict[str],
        resource: ResourcePath | None,
        alias: Alias | None,
    ) -> tuple[Body | None, tuple[str, ...]]:
        """Returns the forwarded body, and warnings for the caller."""
        # Only the API server can apply a patch; the webhook validates the result.
        is_whole = resource is not None and request.method == ("POST" if resource.name is None else "PUT")
        if resource is not None and is_whole and self._admission.validates(resource.kind):
            admitted = await self._admission.admit(request, resource)
            headers[hdrs.CONTENT_TYPE] = "application/json"
            return admitted.body, admitted.warnings
        if not request.can_read_body:
            return None, ()
        if alias is not None:
            return _convert_body(request, await read_body(request)), ()
        if hdrs.CONTENT_LENGTH in request.headers:
            headers[hdrs.CONTENT_LENGTH] = request.headers[hdrs.CONTENT_LENGTH]
        return request.content.iter_any(), ()


def _check_name_options(request: web.Request) -> None:
    """Raises BadRequest: the API server ignores these options, also in a DELETE of all Frameworks that match."""
    if request_info(request).resource == FRAMEWORKS.plural and name_options(request.query) is not None:
        raise lists_only()


def _convert_body(request: web.Request, data: bytes) -> bytes:
    """Returns a patch or options in the launcher's API group; unchanged if it does not name the alias."""
    if SECOND_API_VERSION.encode() not in data:
        return data
    try:
        # JSON is YAML, so a converted apply patch keeps its type.
        decoded = decode(data, Media.YAML if request.content_type == APPLY else Media.JSON)
        return orjson.dumps(convert_decoded(request, decoded).value)
    except RequestError:
        return data  # the API server reports the error


async def _deletion_warnings(
    upstream: Upstream, path: str, resource: ResourcePath, headers: CIMultiDict[str]
) -> tuple[str, ...]:
    """Returns warnings about the Framework at *path* that is deleted, if the caller may read it."""
    if resource.kind != FRAMEWORKS or resource.name is None:
        return ()
    get_headers = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in (hdrs.CONTENT_TYPE.lower(), hdrs.CONTENT_LENGTH.lower())
    )
    get_headers[hdrs.ACCEPT], get_headers[hdrs.ACCEPT_ENCODING] = "application/json", "identity"
    try:
        async with asyncio.timeout(_READ_SECONDS), upstream.answer("GET", path, get_headers) as answer:
            is_found = answer.status == HTTPStatus.OK
            framework = as_object(orjson.loads(await answer.read())) if is_found else {}
    except (LauncherError, aiohttp.ClientError, TimeoutError, ValueError):
        return ()  # the deletion itself must not fail
    return tuple(warning_headers(deletion_warnings(framework)))


async def _forward(
    upstream: Upstream,
    request: web.Request,
    headers: CIMultiDict[str],
    body: Body | None,
    warnings: Iterable[str],
    alias: Alias | None = None,
) -> web.StreamResponse:
    path = request.rel_url.raw_path_qs if alias is None else alias.path
    async with upstream.answer(request.method, path, headers, body) as answer:
        response = ForwardedResponse(
            status=answer.status, reason=answer.reason, headers=response_headers(answer.headers)
        )
        upstream_warnings = answer.headers.getall(_WARNING, ())
        for warning in warnings:
            # The webhook may have sent the same warning through the API server.
            if warning not in upstream_warnings:
                response.headers.add(_WARNING, warning)
        if answer.status == SWITCHING_PROTOCOLS:
            response.headers[hdrs.UPGRADE] = answer.headers.get(hdrs.UPGRADE, "")
            await tunnel(request, answer, response)
            return response
        chunks = _chunks(answer)
        if alias is not None and hdrs.CONTENT_ENCODING not in answer.headers:
            for name in (hdrs.CONTENT_LENGTH, hdrs.ETAG, hdrs.LAST_MODIFIED):
                response.headers.pop(name, None)
            chunks = _converted(chunks, alias)
        await response.prepare(request)
        async for chunk in chunks:
            await _write(response, chunk)
        await response.write_eof()
    return response


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    """Writes *chunk*; while the caller's buffer is full, the API server is not read from either."""
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await response.write(chunk)
    except TimeoutError as error:
        raise ConnectionResetError("the client does not read the response") from error


async def _converted(chunks: AsyncIterator[bytes], alias: Alias) -> AsyncIterator[bytes]:
    """Yields the converted body, line by line if it is streaming; a body that is no object is unchanged."""
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        lines, end, rest = buffer.rpartition(b"\n")
        if alias.streaming and end:
            buffer = rest
            yield alias.convert(lines + end)
    if buffer:
        # Not by its declared type: the API server sends some JSON as plain text.
        yield alias.convert(buffer) if buffer.startswith(b"{") else buffer


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yields the body as it arrives. Raises ConnectionResetError if it is interrupted, which also ends the response."""
    try:
        while chunk := await answer.content.readany():
            yield chunk
    except (aiohttp.ClientError, RuntimeError) as error:
        # aiohttp raises RuntimeError for a connection that was closed between two reads.
        raise ConnectionResetError("the API server's response was interrupted") from error
