"""PATCH: what is there, changed; whatever that is by then."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from aiohttp import web

from launcher.api.apply.merge import anew, applied, check_applied
from launcher.api.apply.strategic_merge import strategically_patched
from launcher.api.http.content_negotiation import ONE, negotiate_format
from launcher.api.http.request_body import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    body_of,
    content_type,
    decoded,
    unsupported,
)
from launcher.api.http.request_options import Validation, WriteOptions, applying_of, patching_of
from launcher.api.resources.registry import Registry
from launcher.api.resources.writes import warnings_of, written
from launcher.core.errors import AlreadyExists, BadRequest, InvalidObject, NotFound
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Media
from launcher.core.validation.field_errors import duplicate_field
from launcher.store.interface import JsonPatch, MergePatch, Object, ResourceKind
from launcher.store.patch import patched

#: Of every kind; clients know how to merge the lists of the core group's, too.
_ACCEPTED = (JSON_PATCH, MERGE, APPLY)
#: An object that others create and delete all the time is not chased for ever.
_APPLY_TRIES = 5


@dataclass(frozen=True, slots=True)
class ApplyPatch:
    """What its sender wants the object to hold; everything else stays."""

    object: Object


@dataclass(frozen=True, slots=True)
class StrategicPatch:
    """A merge patch by which some lists of its kind are merged, too."""

    kind: ResourceKind
    changes: Object


AnyPatch = MergePatch | JsonPatch | ApplyPatch | StrategicPatch


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """A patch, how to carry it out, and the warnings that its text alone gives rise to."""

    patch: AnyPatch
    writing: WriteOptions
    warnings: tuple[str, ...]

    def of(self, stored: Object) -> Object:
        """What it makes of the stored object, which stays as it is. Raises InvalidObject, BadRequest."""
        match self.patch:
            case ApplyPatch():
                return applied(stored, self.patch.object)
            case StrategicPatch():
                return strategically_patched(self.patch.kind, stored, self.patch.changes)
            case _:
                return patched(stored, self.patch)


class Patcher:
    """Carries out patches of one kind."""

    def __init__(self, keeper: Registry, clock: Callable[[], float]) -> None:
        self._kind, self._keeper, self._clock = keeper.kind, keeper, clock

    async def patch(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PATCH``: the object changed; by an apply also created."""
        look = negotiate_format(request, ONE)
        wish = await wish_of(request, self._kind)
        if isinstance(wish.patch, ApplyPatch):
            check_applied(self._kind, wish.patch.object, namespace, name)
            saved, manifest, status = await self._applied(wish.patch, wish, namespace, name)
        else:
            saved, manifest = await self._keeper.change(namespace, name, wish.of, wish.writing)
            status = 200
        manifest = replace(manifest, warnings=(*wish.warnings, *manifest.warnings))
        warnings = warnings_of(manifest, {}, wish.writing)
        return await written(request, self._kind, look, saved, self._clock, warnings, status=status)

    async def patch_status(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """``PATCH …/status``: the status alone changed."""
        look = negotiate_format(request, ONE)
        wish = await wish_of(request, self._kind)
        if isinstance(wish.patch, ApplyPatch):
            check_applied(self._kind, wish.patch.object, namespace, name)
        saved = await self._keeper.change_status(namespace, name, wish.of, wish.writing)
        return await written(request, self._kind, look, saved, self._clock)

    async def _applied(
        self, patch: ApplyPatch, wish: PatchRequest, namespace: str, name: str
    ) -> tuple[Object, Manifest, int]:
        """The object as it now is, and whether it was created: 201 or 200."""
        for tries_left in reversed(range(_APPLY_TRIES)):
            try:
                return *(await self._keeper.apply(namespace, name, patch.object, wish.writing)), 200
            except NotFound:
                new = anew(self._kind, patch.object, namespace, name)
            try:
                return *(await self._keeper.apply_new(new, wish.writing)), 201
            except AlreadyExists:
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")


async def wish_of(request: web.Request, kind: ResourceKind) -> PatchRequest:
    """The patch of such an object in a request. Raises BadRequest, InvalidObject, HTTPUnsupportedMediaType."""
    declared = content_type(request)
    accepted = _ACCEPTED if kind.group else (*_ACCEPTED, STRATEGIC)
    if declared not in accepted:
        raise unsupported(declared, ", ".join(accepted))
    writing = applying_of(request) if declared == APPLY else patching_of(request)
    body = decoded(await body_of(request), Media.YAML if declared == APPLY else Media.JSON)
    twice = tuple(duplicate_field(field) for field in body.duplicates)
    if twice and writing.validation is Validation.STRICT:
        raise InvalidObject(twice)
    patch = _patch(body.value, declared, kind)
    return PatchRequest(patch, writing, tuple(problem.message for problem in twice))


def _patch(value: object, declared: str, kind: ResourceKind) -> AnyPatch:
    if declared == JSON_PATCH:
        if not isinstance(value, list):
            raise BadRequest(
                'a JSON patch is a list of operations: [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]'
            )
        return JsonPatch(value)
    if not isinstance(value, dict):
        raise BadRequest("a patch of this type is an object that holds what is to be changed")
    if declared == APPLY:
        return ApplyPatch(value)
    return StrategicPatch(kind, value) if declared == STRATEGIC else MergePatch(value)
