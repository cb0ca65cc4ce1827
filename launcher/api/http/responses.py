"""Responses: encoded as the client accepts them."""

import asyncio
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

import orjson
import yaml
from aiohttp import hdrs, web

from launcher.api.http.content_negotiation import ResponseFormat
from launcher.api.http.version_conversion import to_requested
from launcher.api.http.warnings import warning_headers
from launcher.core.http_headers import accepts_gzip
from launcher.core.parsing.decoder import Media
from launcher.store.interface import Object


@dataclass(frozen=True, slots=True)
class CachedDocument:
    """A document with its content type and the hash of its content."""

    body: bytes
    content_type: str
    hash: str

    def respond(self, request: web.BaseRequest, cache_control: str) -> web.Response:
        """Returns the document, or 304 for a client that has it."""
        is_current = any(tag.value in (self.hash, "*") for tag in request.if_none_match or ())
        headers = {hdrs.ETAG: f'"{self.hash}"', hdrs.VARY: "Accept", hdrs.CACHE_CONTROL: cache_control}
        if is_current:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers={**headers, hdrs.CONTENT_TYPE: self.content_type})


def cached_document(body: bytes, content_type: str) -> CachedDocument:
    """Returns the document with its hash."""
    return CachedDocument(body, content_type, sha256(body).hexdigest().upper())


#: Smaller bodies are sent uncompressed.
COMPRESS_MIN_BYTES = 128 * 1024


async def respond(
    request: web.Request,
    response_format: ResponseFormat,
    value: Object | bytes,
    *,
    status: int = 200,
    warnings: Iterable[str] = (),
) -> web.Response:
    """Returns the stored object, or its JSON, as a response in the API version of the request."""
    body = _body(response_format, to_requested(request, value))
    response = web.Response(status=status, headers={hdrs.CONTENT_TYPE: str(response_format.media)})
    if len(body) > COMPRESS_MIN_BYTES:
        response.headers[hdrs.VARY] = "Accept-Encoding"
        if accepts_gzip(request.headers.get(hdrs.ACCEPT_ENCODING, "")):
            body = await asyncio.to_thread(_compress, body)
            response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    response.body = body
    for text in warning_headers(warnings):
        response.headers.add("Warning", text)
    return response


def _body(response_format: ResponseFormat, value: Object | bytes) -> bytes:
    if response_format.media is Media.YAML:
        return _yaml(orjson.loads(value) if isinstance(value, bytes) else value)
    if isinstance(value, bytes) and not response_format.pretty:
        return value + b"\n"
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if response_format.pretty else 0)
    return orjson.dumps(orjson.loads(value) if isinstance(value, bytes) else value, option=option)


def _compress(body: bytes) -> bytes:
    # The fastest level: most clients connect over the loopback interface.
    compressor = zlib.compressobj(level=1, wbits=31)
    return compressor.compress(body) + compressor.flush()


def _yaml(value: Object) -> bytes:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8", width=100)


class _Dumper(yaml.CSafeDumper):
    """Also quotes text which YAML 1.1 parsers read as a number."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(0[xo][0-9a-fA-F_]+|[0-9][0-9_]*([eE][-+]?[0-9]+)?)\Z"),
    list("-+0123456789"),
)
