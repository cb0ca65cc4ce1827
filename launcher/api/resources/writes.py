"""POST and PUT: what a client has written whole."""

from collections.abc import Callable, Sequence

import orjson
from aiohttp import web

from launcher.api.http import protobuf
from launcher.api.http.content_negotiation import ONE, ResponseFormat, negotiate_format
from launcher.api.http.request_body import PROTOBUF, body_of, content_type, media_of, object_in
from launcher.api.http.request_options import Validation, WriteOptions, writing_of
from launcher.api.http.responses import respond
from launcher.api.http.status import set_error_target
from launcher.api.http.warnings import metadata_warnings
from launcher.api.resources.object_views import ObjectPrinter, include_of
from launcher.api.resources.registry import Registry, with_request_path
from launcher.core.errors import InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Media
from launcher.core.validation.pod_template import as_object
from launcher.store.interface import Object, ResourceKind

#: How the warnings begin that a client can ask to be spared.
_FINDINGS = ("unknown field ", "duplicate field ")


class Writer:
    """Carries out whole writes of one kind."""

    def __init__(self, keeper: Registry, clock: Callable[[], float]) -> None:
        self._kind, self._keeper, self._clock = keeper.kind, keeper, clock

    async def create(self, request: web.Request, namespace: str) -> web.StreamResponse:
        """``POST`` of a new object: 201, and the object as stored."""
        look, writing = negotiate_format(request, ONE), writing_of(request, "CreateOptions")
        data, media = await self._sent(request)
        try:
            manifest = self._keeper.read(data, media, writing)
        except InvalidObject:
            # Only who has made a mistake is read twice.
            self._aim(request, with_request_path(self._kind, object_in(data, media).value, namespace))
            raise
        new = with_request_path(self._kind, manifest.object, namespace)
        self._aim(request, new)
        stored = await self._keeper.create(new, writing)
        warnings = warnings_of(manifest, new, writing)
        return await written(request, self._kind, look, stored, self._clock, warnings, status=201)

    async def update(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PUT`` of a whole object in the place of the one that its sender has read."""
        look, writing = negotiate_format(request, ONE), writing_of(request, "UpdateOptions")
        data, media = await self._sent(request)
        manifest = self._read_named(data, media, writing, namespace, name)
        new = with_request_path(self._kind, manifest.object, namespace, name)
        # Only what is built in can be replaced unseen.
        if "resourceVersion" in new["metadata"] or self._kind.group:
            saved = await self._keeper.replace(new, writing)
        else:
            saved = await self._keeper.replace_any(new, writing)
        warnings = warnings_of(manifest, new, writing)
        return await written(request, self._kind, look, saved, self._clock, warnings)

    async def update_status(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PUT …/status``: the status alone replaced."""
        look, writing = negotiate_format(request, ONE), writing_of(request, "UpdateOptions")
        media = media_of(request)
        body = object_in(await body_of(request), media)
        new = with_request_path(self._kind, body.value, namespace, name)
        saved = await self._keeper.replace_status(new, writing)
        return await written(request, self._kind, look, saved, self._clock)

    async def _sent(self, request: web.Request) -> tuple[bytes, Media]:
        """The object in the body, and what it is written in."""
        if content_type(request) == PROTOBUF and protobuf.is_read(self._kind):
            return orjson.dumps(protobuf.read(self._kind, await body_of(request))), Media.JSON
        media = media_of(request)
        return await body_of(request), media

    def _read_named(
        self, data: bytes, media: Media, writing: WriteOptions, namespace: str, name: str
    ) -> Manifest:
        try:
            return self._keeper.read(data, media, writing)
        except InvalidObject:
            # That it is meant for another place is the greater mistake.
            with_request_path(self._kind, object_in(data, media).value, namespace, name)
            raise

    def _aim(self, request: web.Request, obj: Object) -> None:
        metadata = as_object(obj.get("metadata"))
        set_error_target(request, self._kind, str(metadata.get("name") or metadata.get("generateName") or ""))


def warnings_of(manifest: Manifest, new: Object, writing: WriteOptions) -> list[str]:
    """What the writer of *new* is told, unless it was asked not to be."""
    said = manifest.warnings
    if writing.validation is Validation.IGNORE:
        said = without_findings(said)
    return [*said, *metadata_warnings(new)]


def without_findings(warnings: Sequence[str]) -> tuple[str, ...]:
    """The warnings but for those of fields that nobody knows, or that stand twice."""
    return tuple(text for text in warnings if not text.startswith(_FINDINGS))


async def written(
    request: web.Request,
    kind: ResourceKind,
    look: ResponseFormat,
    stored: Object,
    clock: Callable[[], float],
    warnings: list[str] | None = None,
    *,
    status: int = 200,
) -> web.Response:
    """The object as it now is, as an answer."""
    viewer = ObjectPrinter(kind, look, include_of(request), clock)
    return await respond(request, look, viewer.one(stored), status=status, warnings=warnings or ())
