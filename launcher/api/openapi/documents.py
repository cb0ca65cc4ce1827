"""``/openapi``: documents that kubectl reads for validation and ``explain``."""

from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from functools import cached_property
from typing import Any

import orjson
from aiohttp import hdrs, web

from launcher.api.api_resources import ApiResource
from launcher.api.http.content_negotiation import (
    MediaType,
    Representation,
    negotiate_format,
    negotiate_media_type,
)
from launcher.api.http.responses import CachedDocument, cached_document, respond
from launcher.api.openapi.definitions import definitions
from launcher.api.openapi.paths import paths
from launcher.api.openapi.schema_dialects import Dialect

_JSON = MediaType("application/json")
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_TYPES = (
    _JSON,
    MediaType(_PROTOBUF),
    MediaType("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
)
_OBJECT = frozenset({Representation.OBJECT})
_INFO = {"title": "Framework Launcher", "version": "v1"}
_NO_CACHE = "no-cache, private"
_YEAR_SECONDS = 365 * 24 * 3600


def _field(number: int, content: bytes) -> bytes:
    """Returns one field of a protobuf message, shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


#: An empty document: version, information and no paths. Old versions of kubectl require it and read no more.
_STUB = (
    _field(1, b"2.0")
    + _field(2, _field(1, _INFO["title"].encode()) + _field(2, _INFO["version"].encode()))
    + _field(8, b"")
)


class OpenApi:
    """Serves the documents, each generated at its first request. *clock* returns seconds since 1970."""

    def __init__(self, resources: Sequence[ApiResource], clock: Callable[[], float]) -> None:
        self._resources, self._clock = resources, clock
        self._stub = cached_document(_STUB, _PROTOBUF)

    async def v2(self, request: web.Request) -> web.Response:
        """``GET /openapi/v2``: one document for all kinds; as protobuf, an empty one for old versions of kubectl."""
        media_type = negotiate_media_type(request, _V2_TYPES)
        if media_type is None:
            return web.Response(status=406)
        return (self._v2 if media_type is _JSON else self._stub).respond(request, _NO_CACHE)

    async def v3(self, request: web.Request) -> web.Response:
        """``GET /openapi/v3``: the URLs of the documents of each group and version."""
        urls = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}
            for path, document in self._v3.items()
        }
        return await respond(request, negotiate_format(request, _OBJECT), {"paths": urls})

    async def v3_document(self, request: web.Request) -> web.Response:
        """``GET /openapi/v3/{path}``: one document; cacheable for ever at the URL with its hash."""
        document = self._v3.get(request.match_info["path"])
        if document is None:
            return web.Response(status=404)
        if negotiate_media_type(request, (_JSON,)) is None:
            raise web.HTTPNotAcceptable(text=f"only the following media types are supported: {_JSON.media}")
        if request.query.get("hash") != document.hash:
            return document.respond(request, _NO_CACHE)
        response = document.respond(request, "public, immutable")
        response.headers[hdrs.EXPIRES] = formatdate(self._clock() + _YEAR_SECONDS, usegmt=True)
        return response

    @cached_property
    def _v2(self) -> CachedDocument:
        return _document(
            {
                "swagger": "2.0",
                "info": _INFO,
                "paths": paths(self._resources, Dialect.SWAGGER_2),
                "definitions": definitions(self._resources, Dialect.SWAGGER_2),
            }
        )

    @cached_property
    def _v3(self) -> Mapping[str, CachedDocument]:
        by_path: dict[str, list[ApiResource]] = {}
        for resource in self._resources:
            prefix = "apis" if resource.kind.group else "api"
            by_path.setdefault(f"{prefix}/{resource.kind.api_version}", []).append(resource)
        return {path: _document(_v3_document(resources)) for path, resources in by_path.items()}


def _v3_document(resources: Sequence[ApiResource]) -> dict[str, Any]:
    schemas = definitions(resources, Dialect.OPENAPI_3)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths(resources, Dialect.OPENAPI_3),
        "components": {"schemas": schemas},
    }


def _document(document: dict[str, Any]) -> CachedDocument:
    return cached_document(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE), _JSON.media)
