"""POST and PUT of whole objects."""

from collections.abc import Callable, Sequence

from aiohttp import web

from launcher.api.http.content_negotiation import (
    OBJECT_REPRESENTATIONS,
    ResponseFormat,
    negotiate_format,
)
from launcher.api.http.protobuf import decode_protobuf, is_supported
from launcher.api.http.request_body import (
    RequestBody,
    content_type,
    decode_request_object,
    explain_syntax_error,
    read_body,
    request_media,
)
from launcher.api.http.request_options import FieldValidation, WriteOptions, write_options
from launcher.api.http.request_types import PROTOBUF
from launcher.api.http.responses import respond
from launcher.api.http.status import set_error_target
from launcher.api.http.version_conversion import with_written_version
from launcher.api.http.warnings import metadata_warnings
from launcher.api.resources.object_views import ObjectPrinter, include_option
from launcher.api.resources.registry import Registry, with_request_path
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.json_access import as_object
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Decoded
from launcher.store.interface import Object, ResourceKind

#: The beginnings of the warnings that ``fieldValidation=Ignore`` suppresses.
_FIELD_WARNINGS = ("unknown field ", "duplicate field ")


class WriteHandler:
    """Handles POST and PUT of one kind."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._kind, self._registry, self._clock = registry.kind, registry, clock

    async def create(self, request: web.Request, namespace: str) -> web.StreamResponse:
        """``POST``: returns 201 and the stored object."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        options = write_options(request, "CreateOptions")
        body = await self._body(request)
        try:
            manifest = self._parse(body, options)
        except InvalidObject:
            self._set_target(request, with_request_path(self._kind, body.value, namespace))
            raise
        new = with_request_path(self._kind, manifest.object, namespace)
        self._set_target(request, new)
        stored = await self._registry.create(new, options)
        warnings = write_warnings(manifest, new, options)
        return await respond_with_object(
            request, self._kind, response_format, stored, self._clock, warnings, status=201
        )

    async def update(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PUT``: replaces the stored object."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        options = write_options(request, "UpdateOptions")
        body = await self._body(request)
        try:
            manifest = self._parse(body, options)
        except InvalidObject:
            # A name or namespace other than the URL's is reported first.
            with_request_path(self._kind, body.value, namespace, name)
            raise
        new = with_request_path(self._kind, manifest.object, namespace, name)
        # As in Kubernetes, custom resources cannot be replaced without a resourceVersion.
        if "resourceVersion" in new["metadata"] or self._kind.group:
            saved = await self._registry.replace(new, options)
        else:
            saved = await self._registry.replace_any(new, options)
        warnings = write_warnings(manifest, new, options)
        return await respond_with_object(request, self._kind, response_format, saved, self._clock, warnings)

    async def update_status(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PUT …/status``: replaces only the status."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        options = write_options(request, "UpdateOptions")
        body = await decode_request_object(request, request_media(request))
        new = with_request_path(self._kind, body.value, namespace, name)
        saved = await self._registry.replace_status(new, options)
        return await respond_with_object(request, self._kind, response_format, saved, self._clock)

    async def _body(self, request: web.Request) -> RequestBody:
        if content_type(request) == PROTOBUF and is_supported(self._kind):
            data = await read_body(request)
            return RequestBody(data, Decoded(decode_protobuf(self._kind, data)))
        body = await decode_request_object(request, request_media(request))
        value = with_written_version(request, body.value)
        return RequestBody(body.data, Decoded(value, body.decoded.duplicates))

    def _parse(self, body: RequestBody, options: WriteOptions) -> Manifest:
        try:
            return self._registry.parse(body.decoded, options)
        except BadRequest as error:
            raise explain_syntax_error(error, body.data) from error

    def _set_target(self, request: web.Request, obj: Object) -> None:
        metadata = as_object(obj.get("metadata"))
        set_error_target(request, self._kind, str(metadata.get("name") or metadata.get("generateName") or ""))


def write_warnings(manifest: Manifest, new: Object, options: WriteOptions) -> list[str]:
    """Returns the warnings of a write of *new*."""
    warnings = manifest.warnings
    if options.validation is FieldValidation.IGNORE:
        warnings = without_field_warnings(warnings)
    return [*warnings, *metadata_warnings(new)]


def without_field_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Returns the warnings except those about unknown and duplicate fields."""
    return tuple(text for text in warnings if not text.startswith(_FIELD_WARNINGS))


async def respond_with_object(
    request: web.Request,
    kind: ResourceKind,
    response_format: ResponseFormat,
    stored: Object,
    clock: Callable[[], float],
    warnings: list[str] | None = None,
    *,
    status: int = 200,
) -> web.Response:
    """Returns the stored object as a response."""
    printer = ObjectPrinter(kind, response_format, include_option(request), clock)
    return await respond(
        request, response_format, printer.one(stored), status=status, warnings=warnings or ()
    )
