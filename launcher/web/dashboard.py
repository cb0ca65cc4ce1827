"""The dashboard: the static files of this folder, served to browsers. They use the HTTP API as any other client."""

import gzip
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from aiohttp import hdrs, web

from launcher.api.http.content_negotiation import accept_clauses
from launcher.core.http_headers import accepts_gzip

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: The path of all files except the page itself, which is at ``/``.
PREFIX = "/dashboard/"
_INDEX = "index.html"
_CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Media types that a client may prefer to HTML at ``/``; anything else is ignored.
_API_MEDIA = frozenset({"application/json", "application/yaml", "application/*", "*/*"})
_HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # The file of another version of the launcher must not be used, so that browsers revalidate.
    hdrs.CACHE_CONTROL: "no-cache",
    hdrs.VARY: "Accept, Accept-Encoding",
}


class Dashboard:
    """Serves the page at ``/`` to clients that prefer HTML, and its files to all. None of them needs credentials."""

    def add_to(self, app: web.Application, root: Handler) -> None:
        """Adds the routes to *app*; *root* handles ``GET /`` of other clients."""

        async def handle_root(request: web.Request) -> web.StreamResponse:
            return _respond(request, _files()[_INDEX]) if _prefers_html(request) else await root(request)

        app.router.add_get("/", handle_root)
        app.router.add_get(f"{PREFIX}{{file:.+}}", self._file)

    def serves(self, request: web.BaseRequest) -> bool:
        """Whether *request* reads a file of the dashboard."""
        path = request.rel_url.raw_path
        if request.method not in ("GET", "HEAD"):
            return False
        return _prefers_html(request) if path == "/" else path.removeprefix(PREFIX) in _files()

    async def _file(self, request: web.Request) -> web.Response:
        file = _files().get(request.match_info["file"])
        if file is None:
            raise web.HTTPNotFound
        return _respond(request, file)


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    compressed: bytes
    content_type: str
    hash: str


@cache
def _files() -> Mapping[str, _File]:
    """The files by path relative to this folder."""
    folder = Path(__file__).parent
    return {
        path.relative_to(folder).as_posix(): _file(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in _CONTENT_TYPES
    }


def _file(path: Path) -> _File:
    body = path.read_bytes()
    compressed = gzip.compress(body, mtime=0)
    return _File(body, compressed, _CONTENT_TYPES[path.suffix], sha256(body).hexdigest())


def _prefers_html(request: web.BaseRequest) -> bool:
    for media, _ in accept_clauses(",".join(request.headers.getall(hdrs.ACCEPT, ()))):
        if media == "text/html" or media in _API_MEDIA:
            return media == "text/html"
    return False


def _respond(request: web.Request, file: _File) -> web.Response:
    headers = {**_HEADERS, hdrs.ETAG: f'"{file.hash}"'}
    if any(tag.value in (file.hash, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    headers[hdrs.CONTENT_TYPE] = file.content_type
    if not accepts_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
        return web.Response(body=file.body, headers=headers)
    return web.Response(body=file.compressed, headers={**headers, hdrs.CONTENT_ENCODING: "gzip"})
