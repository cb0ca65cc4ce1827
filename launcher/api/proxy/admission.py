"""Frameworks and jobs on their way to the cluster: read and checked by the same rules as everywhere."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

import orjson
from aiohttp import web

from launcher.api.http.request_body import body_of, media_of, object_in
from launcher.api.http.request_options import Validation, WriteOptions, writing_of
from launcher.api.http.status import set_error_target
from launcher.api.http.warnings import warning_headers
from launcher.api.resources.registry import ResourceStrategy, with_request_path
from launcher.api.resources.writes import warnings_of
from launcher.api.validation.frameworks import FrameworkRules
from launcher.api.validation.jobs import JobRules
from launcher.core.errors import BadRequest, InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.parsing.decoder import Media
from launcher.core.replicas import with_replicas
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.pod_template import as_object
from launcher.job_kinds.job_kind import FOREIGN, JobKind, foreign_of, noted
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind

#: What is looked at on its way, by where it stands.
_LOOKED_AT = {
    (kind.group, kind.version, kind.plural): kind
    for kind in (FRAMEWORKS, *(kind for foreign in FOREIGN for kind in foreign.kinds))
}


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A namespace, and an object in it; no name for all of its kind together."""

    namespace: str
    name: str | None = None
    kind: ResourceKind = FRAMEWORKS


def place_of(path: str) -> ResourcePath | None:
    """The place of Frameworks or jobs at that *path*, as it was sent; None where something else stands, or a part."""
    # Unquoted before it is taken apart, as kube-apiserver does: what is the same to it has to be the same here.
    match unquote(path).strip("/").split("/"):
        case ["apis", group, version, "namespaces", namespace, plural, *name] if len(name) <= 1:
            kind = _LOOKED_AT.get((group, version, plural))
            return None if kind is None else ResourcePath(namespace, name[0] if name else None, kind)
        case _:
            return None


def check_path(request: web.BaseRequest) -> None:
    """Raise BadRequest for a path that climbs: where the API server has one of its own, it could lead out of it."""
    if not {".", ".."}.isdisjoint(unquote(request.rel_url.raw_path).split("/")):
        raise BadRequest("the path holds '.' or '..'; write it without")


#: Larger bodies are read beside the loop: a lease has to be renewed, and others have to be answered meanwhile.
_AT_ONCE = 16 * 1024
#: So many of them at a time; there is one interpreter for all.
_LARGE = 2
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions"}


@dataclass(frozen=True, slots=True)
class Checked:
    """A body that may go on, as JSON, and the Warning headers that go back."""

    body: bytes
    warnings: tuple[str, ...]


class DoorChecks:
    """Checks whole objects, those of POST and PUT."""

    def __init__(self, policy: Policy, serves_kind: Callable[[JobKind], bool] = lambda _: False) -> None:
        """*serves_kind* returns whether this launcher runs jobs of a kind; another operator may run them."""
        self._serves_kind = serves_kind
        self._rules: dict[ResourceKind, ResourceStrategy] = {FRAMEWORKS: FrameworkRules(policy)}
        for foreign in FOREIGN:
            self._rules |= {kind: JobRules(kind, foreign, policy) for kind in foreign.kinds}
        self._large = asyncio.Semaphore(_LARGE)

    def are_for(self, kind: ResourceKind) -> bool:
        """Whether objects of that *kind* are checked."""
        foreign = foreign_of(kind)
        return foreign is None or self._serves_kind(foreign)

    async def checked(self, request: web.Request, place: ResourcePath) -> Checked:
        """The object in the body of *request*. Raises BadRequest, TooLarge, InvalidObject."""
        writing = writing_of(request, _OPTIONS[request.method])
        media = media_of(request)
        data = await body_of(request)
        manifest = await self._read(request, data, media, writing, place)
        new = with_request_path(place.kind, manifest.object, place.namespace, place.name)
        if place.name is None and (problems := self._rules[place.kind].creation_problems(new)):
            _aim(request, place.kind, new)
            raise InvalidObject(tuple(problems))
        if place.kind == FRAMEWORKS:
            new = with_replicas(new)
        elif place.name is None:
            new = noted(place.kind, new)
        # Of the metadata the API server warns by itself.
        return Checked(orjson.dumps(new), tuple(warning_headers(warnings_of(manifest, {}, writing))))

    async def _read(
        self, request: web.Request, data: bytes, media: Media, writing: WriteOptions, place: ResourcePath
    ) -> Manifest:
        strict = writing.validation is Validation.STRICT
        try:
            if len(data) <= _AT_ONCE:
                return self._rules[place.kind].read(data, media, strict=strict)
            async with self._large:
                return await asyncio.to_thread(self._rules[place.kind].read, data, media, strict=strict)
        except InvalidObject:
            # Only who has made a mistake is read twice; that it is meant for another place is the greater one.
            _aim(
                request,
                place.kind,
                with_request_path(place.kind, object_in(data, media).value, place.namespace, place.name),
            )
            raise


def _aim(request: web.Request, kind: ResourceKind, obj: Object) -> None:
    metadata = as_object(obj.get("metadata"))
    set_error_target(request, kind, str(metadata.get("name") or metadata.get("generateName") or ""))
