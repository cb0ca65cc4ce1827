"""Frameworks on their way to the cluster: read and checked by the same rules as everywhere, with their defaults."""

import asyncio
from dataclasses import dataclass

import orjson
from aiohttp import web

from launcher.api.bodies import body_of, media_of, object_in
from launcher.api.door.paths import Place
from launcher.api.errors import aim
from launcher.api.frameworks import FrameworkRules
from launcher.api.keeping import placed
from launcher.api.options import Validation, Writing, writing_of
from launcher.api.policy import Policy
from launcher.api.warnings import warning_headers
from launcher.api.writing import warnings_of
from launcher.core.checking.podrules import part
from launcher.core.errors import InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.reading.decode import Media
from launcher.core.replicas import scalable
from launcher.store.port import FRAMEWORKS, Object

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


class FrameworkChecks:
    """Checks whole Frameworks, those of POST and PUT."""

    def __init__(self, policy: Policy) -> None:
        self._rules = FrameworkRules(policy)
        self._large = asyncio.Semaphore(_LARGE)

    async def checked(self, request: web.Request, place: Place) -> Checked:
        """The Framework in the body of *request*. Raises BadRequest, TooLarge, InvalidObject."""
        writing = writing_of(request, _OPTIONS[request.method])
        media = media_of(request)
        data = await body_of(request)
        manifest = await self._read(request, data, media, writing, place)
        new = scalable(placed(FRAMEWORKS, manifest.object, place.namespace, place.name))
        # Of the metadata the API server warns by itself.
        return Checked(orjson.dumps(new), tuple(warning_headers(warnings_of(manifest, {}, writing))))

    async def _read(
        self, request: web.Request, data: bytes, media: Media, writing: Writing, place: Place
    ) -> Manifest:
        strict = writing.validation is Validation.STRICT
        try:
            if len(data) <= _AT_ONCE:
                return self._rules.read(data, media, strict=strict)
            async with self._large:
                return await asyncio.to_thread(self._rules.read, data, media, strict=strict)
        except InvalidObject:
            # Only who has made a mistake is read twice; that it is meant for another place is the greater one.
            _aim(request, placed(FRAMEWORKS, object_in(data, media).value, place.namespace, place.name))
            raise


def _aim(request: web.Request, obj: Object) -> None:
    metadata = part(obj.get("metadata"))
    aim(request, FRAMEWORKS, str(metadata.get("name") or metadata.get("generateName") or ""))
