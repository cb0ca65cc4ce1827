"""Requests passed on to the API server as whoever sent them, and its answers passed back as they are."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus

import aiohttp
import orjson
from aiohttp import hdrs, web
from multidict import CIMultiDict, CIMultiDictProxy

from launcher.api.http.request_body import body_of
from launcher.api.http.warnings import warning_headers
from launcher.api.proxy.admission import DoorChecks, check_path, place_of
from launcher.api.proxy.api_group_alias import Alias, alias_of, asks_plainly
from launcher.api.proxy.authentication import certificate_of, check_token, name_caller
from launcher.api.proxy.upgrade import SWITCHED, ask, tunnel, wish_of
from launcher.api.proxy.upstream import Body, Upstream
from launcher.api.resources.job_owned import deletion_warnings
from launcher.core.errors import LauncherError
from launcher.core.validation.pod_template import as_object
from launcher.store.interface import FRAMEWORKS

#: They speak about one connection, and not about what is said over it.
_OF_ONE_CONNECTION = frozenset(
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
#: Made anew for the way onward; a body that waits to be asked for has been asked for here.
_MADE_ANEW = frozenset({"host", "content-length", "expect"})
#: By which a proxy that a cluster believes tells who calls. No caller of ours is one.
_OF_PROXIES = "x-remote-"
#: Where audit logs find out whom a proxy speaks for.
_FORWARDED = "X-Forwarded-For"


def onward(headers: CIMultiDictProxy[str], caller: str | None) -> CIMultiDict[str]:
    """What goes on to the API server of a request's *headers*, in their order; *caller* is its sender's address."""
    left = _own(headers) | _MADE_ANEW
    kept = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (low := name.lower()) not in left and not low.startswith(_OF_PROXIES)
    )
    if caller is not None:
        kept[_FORWARDED] = ", ".join([*kept.popall(_FORWARDED, []), caller])
    return kept


def back(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """What comes back to the caller of an answer's *headers*."""
    left = _own(headers)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in left)


def _own(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    """The names of those that end here: the usual ones, and those that the sender names."""
    named = headers.getall(hdrs.CONNECTION, ())
    return _OF_ONE_CONNECTION | frozenset(_words(named)) if named else _OF_ONE_CONNECTION


def _words(values: Iterable[str]) -> Iterable[str]:
    return (word.strip().lower() for value in values for word in value.split(","))


#: Seconds in which a caller has to take something of what is there for it; whoever does not is as good as gone.
_STALL = 60.0
#: Seconds in which the API server has to show the Framework that a request deletes.
_ASK_SECONDS = 5.0
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_WARNING = "Warning"


class Passed(web.StreamResponse):
    """An answer of the API server: nothing is added to it."""


class ProxyHandler:
    """Passes requests on, Frameworks checked."""

    def __init__(
        self, others: Upstream, ourselves: Upstream | None, checks: DoorChecks, *, second_name: bool
    ) -> None:
        """
        *others* takes requests with credentials of their own.

        Those of whoever shows a client certificate go by *ourselves*, if there is such a way.
        """
        self._others, self._ourselves, self._checks = others, ourselves, checks
        self._second_name = second_name

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request at all: the API server's answer to it."""
        if request.method not in _METHODS:
            raise web.HTTPMethodNotAllowed(request.method, _METHODS)
        check_path(request)
        headers = onward(request.headers, request.remote)
        upstream = self._identified(request, headers)
        if (wish := wish_of(request)) is not None:
            ask(headers, wish)
            return await _passed(upstream, request, headers, None, ())
        alias = alias_of(request) if self._second_name else None
        if alias is not None:
            asks_plainly(headers)
        body, warnings = await self._body(request, headers, alias)
        if request.method == "DELETE":
            warnings = await _deletion_warnings(upstream, request, headers, alias)
        return await _passed(upstream, request, headers, body, warnings, alias)

    def _identified(self, request: web.Request, headers: CIMultiDict[str]) -> Upstream:
        """The way on for *request*; *headers* say who it is from. Raises HTTPUnauthorized when nobody says so."""
        if self._ourselves is not None and (certificate := certificate_of(request)) is not None:
            name_caller(request, headers, certificate)
            return self._ourselves
        check_token(headers)
        return self._others

    async def _body(
        self, request: web.Request, headers: CIMultiDict[str], alias: Alias | None
    ) -> tuple[Body | None, tuple[str, ...]]:
        """What is sent on, and what the caller is warned about."""
        place = place_of(request.rel_url.raw_path if alias is None else alias.path.partition("?")[0])
        # A patch is part of something that only the API server has: what it makes of it, the webhook sees.
        is_whole = place is not None and request.method == ("POST" if place.name is None else "PUT")
        if place is not None and is_whole and self._checks.are_for(place.kind):
            checked = await self._checks.checked(request, place)
            headers[hdrs.CONTENT_TYPE] = "application/json"
            return checked.body, checked.warnings
        if not request.can_read_body:
            return None, ()
        if alias is not None:
            return await body_of(request), ()
        if hdrs.CONTENT_LENGTH in request.headers:
            headers[hdrs.CONTENT_LENGTH] = request.headers[hdrs.CONTENT_LENGTH]
        return request.content.iter_any(), ()


async def _deletion_warnings(
    upstream: Upstream, request: web.Request, headers: CIMultiDict[str], alias: Alias | None
) -> tuple[str, ...]:
    """What the caller has to know about the Framework that it deletes, if it may read that."""
    path = request.rel_url.raw_path if alias is None else alias.path.partition("?")[0]
    place = place_of(path)
    if place is None or place.kind != FRAMEWORKS or place.name is None:
        return ()
    asked = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in (hdrs.CONTENT_TYPE.lower(), hdrs.CONTENT_LENGTH.lower())
    )
    asked[hdrs.ACCEPT], asked[hdrs.ACCEPT_ENCODING] = "application/json", "identity"
    try:
        async with asyncio.timeout(_ASK_SECONDS), upstream.answer("GET", path, asked) as answer:
            found = as_object(orjson.loads(await answer.read())) if answer.status == HTTPStatus.OK else {}
    except (LauncherError, aiohttp.ClientError, TimeoutError, ValueError):
        return ()  # the deletion itself is what counts
    return tuple(warning_headers(deletion_warnings(found)))


async def _passed(
    upstream: Upstream,
    request: web.Request,
    headers: CIMultiDict[str],
    body: Body | None,
    warnings: Iterable[str],
    alias: Alias | None = None,
) -> web.StreamResponse:
    path = request.rel_url.raw_path_qs if alias is None else alias.path
    async with upstream.answer(request.method, path, headers, body) as answer:
        response = Passed(status=answer.status, reason=answer.reason, headers=back(answer.headers))
        told = answer.headers.getall(_WARNING, ())
        for warning in warnings:
            # The webhook may have said the same by way of the API server.
            if warning not in told:
                response.headers.add(_WARNING, warning)
        if answer.status == SWITCHED:
            response.headers[hdrs.UPGRADE] = answer.headers.get(hdrs.UPGRADE, "")
            await tunnel(request, answer, response)
            return response
        pieces = _pieces(answer)
        if alias is not None and hdrs.CONTENT_ENCODING not in answer.headers:
            for name in (hdrs.CONTENT_LENGTH, hdrs.ETAG, hdrs.LAST_MODIFIED):
                response.headers.pop(name, None)
            pieces = _renamed(pieces, alias)
        await response.prepare(request)
        async for piece in pieces:
            await _give(response, piece)
        await response.write_eof()
    return response


async def _give(response: web.StreamResponse, piece: bytes) -> None:
    """Wait while the caller has more than enough; the API server's connection waits with it."""
    try:
        async with asyncio.timeout(_STALL):
            await response.write(piece)
    except TimeoutError as error:
        raise ConnectionResetError("the caller takes nothing") from error


async def _renamed(pieces: AsyncIterator[bytes], alias: Alias) -> AsyncIterator[bytes]:
    """The body by its other name: line by line if it lasts, else whole; what is no object stays as it is."""
    held = b""
    async for piece in pieces:
        held += piece
        lines, end, rest = held.rpartition(b"\n")
        if alias.lasts and end:
            held = rest
            yield alias.renamed(lines + end)
    if held:
        # Not by its declared type: the cluster calls some of its JSON plain text.
        yield alias.renamed(held) if held.startswith(b"{") else held


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body as it comes. Raises ConnectionResetError when it breaks off, so that the caller sees that, too."""
    try:
        while piece := await answer.content.readany():
            yield piece
    except (aiohttp.ClientError, RuntimeError) as error:
        # The last is what aiohttp raises for a connection that was closed between two reads.
        raise ConnectionResetError("the API server's answer broke off") from error
