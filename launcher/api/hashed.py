"""Documents that never change while the server runs: sent once to a client that remembers their hash."""

from dataclasses import dataclass
from hashlib import sha256

from aiohttp import hdrs, web


@dataclass(frozen=True, slots=True)
class Hashed:
    """A document, its type, and a hash that is another one whenever the document is."""

    body: bytes
    content_type: str
    hash: str

    def answer(self, request: web.BaseRequest, caching: str) -> web.Response:
        """The document, or 304 for a client that has it already."""
        known = any(tag.value in (self.hash, "*") for tag in request.if_none_match or ())
        headers = {hdrs.ETAG: f'"{self.hash}"', hdrs.VARY: "Accept", hdrs.CACHE_CONTROL: caching}
        if known:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers={**headers, hdrs.CONTENT_TYPE: self.content_type})


def hashed(body: bytes, content_type: str) -> Hashed:
    """The document with its hash."""
    return Hashed(body, content_type, sha256(body).hexdigest().upper())
