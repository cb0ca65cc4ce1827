"""
Who may speak to the server: decided from the headers alone, before anything else of a request is read.

The server runs commands for whoever gets through, and on a laptop it has no password. A browser on that laptop visits
pages of strangers, and each of them can send requests to localhost. So a request must name one of our own hosts (a page
whose name was pointed at 127.0.0.1 after it was loaded still sends its own name), and must not come from a page of
another origin, which browsers tell in Origin and in Sec-Fetch-Site, whatever the page does about its Content-Type.
There are no cookies, so nothing that a browser adds by itself opens a door.
"""

import hmac
import re
from hashlib import sha256

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.core.errors import Forbidden

#: The names of a server that only this machine can reach.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_FETCH_SITES = frozenset({"same-origin", "none"})


class Guard:
    """Lets a request through, or answers 403 or 401."""

    def __init__(self, hosts: frozenset[str], token: str | None = None) -> None:
        """*hosts* are the names, without ports, under which clients know the server."""
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token: bytes | None = None
        self.set_token(token)

    def set_token(self, token: str | None) -> None:
        """From now on, requests must carry this token; None: they need none."""
        self._token = None if token is None else _digest(token)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._check_host(request)
        check_origin(request)
        self._check_token(request)
        _check_impersonation(request)
        return await handler(request)

    def _check_host(self, request: web.Request) -> None:
        named = request.headers.getall(hdrs.HOST, [])
        found = _HOST.fullmatch(named[0]) if len(named) == 1 else None
        host = found[1].removeprefix("[").removesuffix("]").removesuffix(".").lower() if found else None
        if host not in self._hosts:
            raise Forbidden(
                f"this server is not called {', '.join(named)[:200]!r}; "
                f"it answers to {', '.join(sorted(self._hosts))}"
            )

    def _check_token(self, request: web.Request) -> None:
        if self._token is None or is_probe(request) or is_rendezvous(request):
            return
        given = request.headers.getall(hdrs.AUTHORIZATION, [])
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        right = hmac.compare_digest(_digest(token.strip()), self._token)
        if scheme.lower() != "bearer" or not right:
            raise web.HTTPUnauthorized(text="Unauthorized")


def check_origin(request: web.BaseRequest) -> None:
    """Raise Forbidden for pages of others: our own alone may call, and programs send none of these headers."""
    ours = f"{request.scheme}://{request.headers[hdrs.HOST]}".lower()
    for origin in request.headers.getall(hdrs.ORIGIN, []):
        if origin.lower() != ours:
            raise Forbidden(f"pages of {origin[:200]!r} may not call this server")
    for site in request.headers.getall("Sec-Fetch-Site", []):
        if site.lower() not in _FETCH_SITES:
            raise Forbidden(
                "pages of other sites may not call this server; type its address to go there yourself"
            )


def _check_impersonation(request: web.Request) -> None:
    # Left unheeded, it would run with more rights than its sender asked for.
    if any(name.lower().startswith("impersonate-") for name in request.headers):
        raise Forbidden("nobody can act as somebody else here; leave out --as and the like")


def _digest(token: str) -> bytes:
    # Of one length, so that the comparison does not tell how long the right one is.
    return sha256(token.encode(errors="surrogateescape")).digest()
