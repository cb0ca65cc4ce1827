"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from aiohttp import web

from launcher.api.apply.merge import check_applied, merge_applied, new_applied
from launcher.api.apply.strategic_merge import strategic_merge
from launcher.api.http.content_negotiation import OBJECT_REPRESENTATIONS, negotiate_format
from launcher.api.http.request_body import content_type, decode_request, unsupported_media_type
from launcher.api.http.request_options import WriteOptions, apply_options, patch_options
from launcher.api.http.request_types import APPLY, JSON_PATCH, MERGE, STRATEGIC
from launcher.api.http.version_conversion import with_written_version
from launcher.api.resources.registry import Registry
from launcher.api.resources.writes import respond_with_object, write_warnings
from launcher.core.errors import AlreadyExists, BadRequest, InvalidObject, NotFound
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Media
from launcher.core.validation.field_errors import duplicate_field
from launcher.store.interface import JsonPatch, MergePatch, Object, ResourceKind
from launcher.store.patch import apply_patch

#: For every kind; the core kinds also support strategic merge patches.
_ACCEPTED = (JSON_PATCH, MERGE, APPLY)
#: Attempts of an apply while other clients create and delete the object.
_MAX_APPLY_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ApplyPatch:
    """The applied configuration of a server-side apply."""

    object: Object


@dataclass(frozen=True, slots=True)
class StrategicPatch:
    """A strategic merge patch, which also merges some lists of its kind."""

    kind: ResourceKind
    changes: Object


AnyPatch = MergePatch | JsonPatch | ApplyPatch | StrategicPatch


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """A patch with its options, and warnings about its text."""

    patch: AnyPatch
    options: WriteOptions
    warnings: tuple[str, ...]

    def apply_to(self, stored: Object) -> Object:
        """Returns the patched object; *stored* is not changed. Raises InvalidObject, BadRequest."""
        match self.patch:
            case ApplyPatch():
                return merge_applied(stored, self.patch.object)
            case StrategicPatch():
                return strategic_merge(self.patch.kind, stored, self.patch.changes)
            case _:
                return apply_patch(stored, self.patch)


class PatchHandler:
    """Handles PATCH of one kind."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._kind, self._registry, self._clock = registry.kind, registry, clock

    async def patch(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PATCH``: changes the object; an apply also creates it."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        patch = await parse_patch(request, self._kind)
        if isinstance(patch.patch, ApplyPatch):
            check_applied(self._kind, patch.patch.object, namespace, name)
            saved, manifest, status = await self._apply(request, patch.patch, patch.options, namespace, name)
        else:
            saved, manifest = await self._registry.change(namespace, name, patch.apply_to, patch.options)
            status = 200
        manifest = replace(manifest, warnings=(*patch.warnings, *manifest.warnings))
        warnings = write_warnings(manifest, {}, patch.options)
        return await respond_with_object(
            request, self._kind, response_format, saved, self._clock, warnings, status=status
        )

    async def patch_status(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PATCH …/status``: changes only the status."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        patch = await parse_patch(request, self._kind)
        if isinstance(patch.patch, ApplyPatch):
            check_applied(self._kind, patch.patch.object, namespace, name)
        saved = await self._registry.change_status(namespace, name, patch.apply_to, patch.options)
        return await respond_with_object(request, self._kind, response_format, saved, self._clock)

    async def _apply(
        self, request: web.Request, patch: ApplyPatch, options: WriteOptions, namespace: str, name: str
    ) -> tuple[Object, Manifest, int]:
        """Returns the stored object, and 201 if it was created or 200."""
        for remaining in reversed(range(_MAX_APPLY_ATTEMPTS)):
            try:
                return *(await self._registry.apply(namespace, name, patch.object, options)), 200
            except NotFound:
                new = new_applied(self._kind, patch.object, namespace, name)
            try:
                new = with_written_version(request, new)
                return *(await self._registry.apply_new(new, options)), 201
            except AlreadyExists:
                if not remaining:
                    raise
        raise AssertionError("the last attempt returns or raises")


async def parse_patch(request: web.Request, kind: ResourceKind) -> PatchRequest:
    """Returns the patch of an object of that *kind*. Raises BadRequest, InvalidObject, HTTPUnsupportedMediaType."""
    declared = content_type(request)
    accepted = _ACCEPTED if kind.group else (*_ACCEPTED, STRATEGIC)
    if declared not in accepted:
        raise unsupported_media_type(declared, ", ".join(accepted))
    options = apply_options(request) if declared == APPLY else patch_options(request)
    body = await decode_request(request, Media.YAML if declared == APPLY else Media.JSON)
    duplicates = tuple(duplicate_field(field) for field in body.decoded.duplicates)
    if duplicates and options.strict:
        raise InvalidObject(duplicates)
    patch = _patch(body.value, declared, kind)
    return PatchRequest(patch, options, tuple(error.message for error in duplicates))


def _patch(value: object, declared: str, kind: ResourceKind) -> AnyPatch:
    if declared == JSON_PATCH:
        if not isinstance(value, list):
            raise BadRequest(
                "a JSON patch must be a list of operations: "
                '[{"op": "add", "path": "/metadata/labels/a", "value": "b"}]'
            )
        return JsonPatch(value)
    if not isinstance(value, dict):
        raise BadRequest("a patch of this type must be an object")
    if declared == APPLY:
        return ApplyPatch(value)
    return StrategicPatch(kind, value) if declared == STRATEGIC else MergePatch(value)
