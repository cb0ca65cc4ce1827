"""Frameworks and jobs on their way to the cluster: read and checked by the same rules as everywhere."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from aiohttp import web

from launcher.api.bodies import body_of, media_of, object_in
from launcher.api.door.paths import Place
from launcher.api.errors import aim
from launcher.api.frameworks import FrameworkRules
from launcher.api.jobs import JobRules
from launcher.api.keeping import Rules, placed
from launcher.api.options import Validation, Writing, writing_of
from launcher.api.policy import Policy
from launcher.api.warnings import warning_headers
from launcher.api.writing import warnings_of
from launcher.core.checking.podrules import part
from launcher.core.errors import InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.reading.decode import Media
from launcher.core.replicas import scalable
from launcher.jobs.foreign import FOREIGN, Foreign, foreign_of, noted
from launcher.store.port import FRAMEWORKS, Kind, Object

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

    def __init__(self, policy: Policy, are_ours: Callable[[Foreign], bool] = lambda _: False) -> None:
        """*are_ours* tells whether jobs of a kind are: those of other operators are none of our business."""
        self._are_ours = are_ours
        self._rules: dict[Kind, Rules] = {FRAMEWORKS: FrameworkRules(policy)}
        for foreign in FOREIGN:
            self._rules |= {kind: JobRules(kind, foreign, policy) for kind in foreign.kinds}
        self._large = asyncio.Semaphore(_LARGE)

    def are_for(self, kind: Kind) -> bool:
        """Whether objects of that *kind* are checked."""
        foreign = foreign_of(kind)
        return foreign is None or self._are_ours(foreign)

    async def checked(self, request: web.Request, place: Place) -> Checked:
        """The object in the body of *request*. Raises BadRequest, TooLarge, InvalidObject."""
        writing = writing_of(request, _OPTIONS[request.method])
        media = media_of(request)
        data = await body_of(request)
        manifest = await self._read(request, data, media, writing, place)
        new = placed(place.kind, manifest.object, place.namespace, place.name)
        if place.name is None and (problems := self._rules[place.kind].creation_problems(new)):
            _aim(request, place.kind, new)
            raise InvalidObject(tuple(problems))
        if place.kind == FRAMEWORKS:
            new = scalable(new)
        elif place.name is None:
            new = noted(place.kind, new)
        # Of the metadata the API server warns by itself.
        return Checked(orjson.dumps(new), tuple(warning_headers(warnings_of(manifest, {}, writing))))

    async def _read(
        self, request: web.Request, data: bytes, media: Media, writing: Writing, place: Place
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
                placed(place.kind, object_in(data, media).value, place.namespace, place.name),
            )
            raise


def _aim(request: web.Request, kind: Kind, obj: Object) -> None:
    metadata = part(obj.get("metadata"))
    aim(request, kind, str(metadata.get("name") or metadata.get("generateName") or ""))
