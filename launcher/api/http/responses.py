"""Answers, written as the client wants to read them."""

import asyncio
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

import orjson
from aiohttp import hdrs, web

from launcher.api.http.api_group_alias import to_external
from launcher.api.http.content_negotiation import ResponseFormat
from launcher.api.http.warnings import warning_headers
from launcher.core.parsing.decoder import Media
from launcher.store.interface import Object

if TYPE_CHECKING:
    import yaml


@dataclass(frozen=True, slots=True)
class CachedDocument:
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


def hashed(body: bytes, content_type: str) -> CachedDocument:
    """The document with its hash."""
    return CachedDocument(body, content_type, sha256(body).hexdigest().upper())


#: Smaller bodies are not worth the time.
COMPRESSED_FROM = 128 * 1024


async def respond(
    request: web.Request,
    look: ResponseFormat,
    value: Object | bytes,
    *,
    status: int = 200,
    warnings: Iterable[str] = (),
) -> web.Response:
    """The object, or its JSON text, as an answer."""
    body = _body(look, to_external(request, value))
    response = web.Response(status=status, headers={hdrs.CONTENT_TYPE: _content_type(look)})
    if len(body) > COMPRESSED_FROM:
        response.headers[hdrs.VARY] = "Accept-Encoding"
        if _takes_gzip(request.headers):
            body = await asyncio.to_thread(_zipped, body)
            response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    response.body = body
    for text in warning_headers(warnings):
        response.headers.add("Warning", text)
    return response


def _content_type(look: ResponseFormat) -> str:
    return str(look.media)


def _body(look: ResponseFormat, value: Object | bytes) -> bytes:
    if look.media is Media.YAML:
        return _yaml(orjson.loads(value) if isinstance(value, bytes) else value)
    if isinstance(value, bytes) and not look.pretty:
        return value + b"\n"
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if look.pretty else 0)
    return orjson.dumps(orjson.loads(value) if isinstance(value, bytes) else value, option=option)


def _takes_gzip(headers: Mapping[str, str]) -> bool:
    for clause in headers.get(hdrs.ACCEPT_ENCODING, "").split(","):
        name, _, quality = clause.replace(" ", "").lower().partition(";q=")
        if name == "gzip":
            return quality not in ("0", "0.0", "0.00", "0.000")
    return False


def _zipped(body: bytes) -> bytes:
    # The fastest level: the network that this saves is most often the loopback.
    packer = zlib.compressobj(level=1, wbits=31)
    return packer.compress(body) + packer.flush()


def _yaml(value: Object) -> bytes:
    import yaml

    return yaml.dump(
        value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, encoding="utf-8", width=100
    )


@cache
def _dumper() -> "type[yaml.CSafeDumper]":
    """Writes text that some reader would take for a number in quotes, too."""
    import re

    import yaml

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
            return True

    number = re.compile(r"[-+]?(0[xo][0-9a-fA-F_]+|[0-9][0-9_]*([eE][-+]?[0-9]+)?)\Z")
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Dumper
