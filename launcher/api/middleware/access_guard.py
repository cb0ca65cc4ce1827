"""
Access to the server in local mode: checked from the headers alone, before any other part of a request is read.

The server runs commands of its clients, and on a laptop it has no password. A browser on that laptop loads pages of
other sites, and each page can send requests to localhost. Therefore a request must name an allowed host (a page whose
name was changed to 127.0.0.1 by DNS rebinding still sends its own name), and must not come from a page of another
origin, which browsers report in Origin and Sec-Fetch-Site regardless of the Content-Type. There are no cookies, so no
credential is added by the browser.
"""

import hmac
import re
from collections.abc import Callable
from hashlib import sha256

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from launcher.api.middleware.request_info import is_probe, is_rendezvous
from launcher.core.errors import Forbidden

#: The names of a server that only this machine can reach.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_FETCH_SITES = frozenset({"same-origin", "none"})


class AccessGuard:
    """Passes a request on, or responds with 403 or 401."""

    def __init__(
        self,
        hosts: frozenset[str],
        token: str | None = None,
        *,
        is_public: Callable[[web.BaseRequest], bool] = lambda _: False,
    ) -> None:
        """*hosts* are the allowed Host headers, without ports; a request that *is_public* needs no token."""
        self._is_public = is_public
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token: bytes | None = None
        self.set_token(token)

    def set_token(self, token: str | None) -> None:
        """Sets the token that requests must have; None accepts requests without one."""
        self._token = None if token is None else _digest(token)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._check_host(request)
        check_origin(request)
        self._check_token(request)
        _check_impersonation(request)
        return await handler(request)

    def _check_host(self, request: web.Request) -> None:
        values = request.headers.getall(hdrs.HOST, [])
        match = _HOST.fullmatch(values[0]) if len(values) == 1 else None
        host = match[1].removeprefix("[").removesuffix("]").removesuffix(".").lower() if match else None
        if host not in self._hosts:
            raise Forbidden(
                f"Host header {', '.join(values)[:200]!r} is not allowed; allowed hosts: "
                f"{', '.join(sorted(self._hosts))} (add one with --host)"
            )

    def _check_token(self, request: web.Request) -> None:
        if self._token is None or is_probe(request) or is_rendezvous(request):
            return
        if self._is_public(request):
            return
        values = request.headers.getall(hdrs.AUTHORIZATION, [])
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        is_valid = hmac.compare_digest(_digest(token.strip()), self._token)
        if scheme.lower() != "bearer" or not is_valid:
            raise web.HTTPUnauthorized(text="Unauthorized")


def check_origin(request: web.BaseRequest) -> None:
    """Raises Forbidden for a request from a page of another origin; only browsers send these headers."""
    own_origin = f"{request.scheme}://{request.headers[hdrs.HOST]}".lower()
    for origin in request.headers.getall(hdrs.ORIGIN, []):
        if origin.lower() != own_origin:
            raise Forbidden(f"cross-origin requests are not allowed: Origin is {origin[:200]!r}")
    for site in request.headers.getall("Sec-Fetch-Site", []):
        if site.lower() not in _FETCH_SITES:
            raise Forbidden(
                f"cross-origin requests are not allowed: Sec-Fetch-Site is {site[:200]!r}; open the URL directly"
            )


def _check_impersonation(request: web.Request) -> None:
    # Ignored, the request would run with more rights than its sender requested.
    if any(name.lower().startswith("impersonate-") for name in request.headers):
        raise Forbidden("impersonation is not supported; remove --as")


def _digest(token: str) -> bytes:
    # Digests have one length, so that the comparison does not reveal the length of the token.
    return sha256(token.encode(errors="surrogateescape")).digest()
