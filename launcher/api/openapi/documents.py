"""``/openapi``: the API described for machines. kubectl asks it before it writes anything, and for ``explain``."""

from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from functools import cached_property
from typing import Any

import orjson
from aiohttp import hdrs, web

from launcher.api.api_resources import ApiResource
from launcher.api.http.content_negotiation import Offer, Representation, negotiate_format, wanted
from launcher.api.http.responses import CachedDocument, hashed, respond
from launcher.api.openapi.definitions import definitions
from launcher.api.openapi.paths import paths
from launcher.api.openapi.schema_dialects import Dialect

_JSON = Offer("application/json")
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_OFFERS = (_JSON, Offer(_PROTOBUF), Offer("application/com.github.proto-openapi.spec.v2@v1.0+protobuf"))
_OBJECT = frozenset({Representation.OBJECT})
_INFO = {"title": "Framework Launcher", "version": "v1"}
_NOT_KEPT = "no-cache, private"
_YEAR = 365 * 24 * 3600


def _field(number: int, content: bytes) -> bytes:
    """One field of a protobuf message, shorter than 128 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


#: A description of nothing: version, information, and no paths. Old kubectl cannot do without, and looks at no more.
_STUB = (
    _field(1, b"2.0")
    + _field(2, _field(1, _INFO["title"].encode()) + _field(2, _INFO["version"].encode()))
    + _field(8, b"")
)


class OpenApi:
    """The documents, each made when it is first asked for. *clock* gives seconds since 1970."""

    def __init__(self, served: Sequence[ApiResource], clock: Callable[[], float]) -> None:
        self._served, self._clock = served, clock
        self._stub = hashed(_STUB, _PROTOBUF)

    async def v2(self, request: web.Request) -> web.Response:
        """``GET /openapi/v2``: everything in one document; for old kubectl, next to nothing as protobuf."""
        offer = wanted(request, _V2_OFFERS)
        if offer is None:
            return web.Response(status=406)
        return (self._v2 if offer is _JSON else self._stub).answer(request, _NOT_KEPT)

    async def v3(self, request: web.Request) -> web.Response:
        """``GET /openapi/v3``: where the document of each group and version is."""
        found = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}
            for path, document in self._v3.items()
        }
        return await respond(request, negotiate_format(request, _OBJECT), {"paths": found})

    async def v3_document(self, request: web.Request) -> web.Response:
        """``GET /openapi/v3/{path}``: one of them, to be kept for ever under the address that has its hash."""
        document = self._v3.get(request.match_info["path"])
        if document is None:
            return web.Response(status=404)
        if wanted(request, (_JSON,)) is None:
            raise web.HTTPNotAcceptable(text=f"only {_JSON.media} can be had here")
        if request.query.get("hash") != document.hash:
            return document.answer(request, _NOT_KEPT)
        response = document.answer(request, "public, immutable")
        response.headers[hdrs.EXPIRES] = formatdate(self._clock() + _YEAR, usegmt=True)
        return response

    @cached_property
    def _v2(self) -> CachedDocument:
        return _hashed(
            {
                "swagger": "2.0",
                "info": _INFO,
                "paths": paths(self._served, Dialect.SWAGGER_2),
                "definitions": definitions([each.kind for each in self._served], Dialect.SWAGGER_2),
            }
        )

    @cached_property
    def _v3(self) -> Mapping[str, CachedDocument]:
        places: dict[str, list[ApiResource]] = {}
        for each in self._served:
            prefix = "apis" if each.kind.group else "api"
            places.setdefault(f"{prefix}/{each.kind.api_version}", []).append(each)
        return {place: _hashed(_v3_document(some)) for place, some in places.items()}


def _v3_document(served: Sequence[ApiResource]) -> dict[str, Any]:
    schemas = definitions([each.kind for each in served], Dialect.OPENAPI_3)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths(served, Dialect.OPENAPI_3),
        "components": {"schemas": schemas},
    }


def _hashed(document: dict[str, Any]) -> CachedDocument:
    return hashed(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE), _JSON.media)
