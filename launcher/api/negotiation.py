"""What a client wants its answer to look like, as its Accept header says."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from aiohttp import web

from launcher.api.accept import clauses_of
from launcher.api.calls import flag
from launcher.core.reading.decode import Media

#: Programs whose user reads along.
_FOR_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_MEDIA = {
    "application/json": Media.JSON,
    "application/yaml": Media.YAML,
    "application/*": Media.JSON,
    "*/*": Media.JSON,
}


class View(StrEnum):
    """How much of an object is shown, by the name that an Accept header has for it."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


#: What can be had of one object, of a list, and of a stream.
ONE = frozenset({View.OBJECT, View.TABLE, View.METADATA})
MANY = frozenset({View.OBJECT, View.TABLE, View.METADATA_LIST})


@dataclass(frozen=True, slots=True)
class Look:
    """What the answer looks like."""

    media: Media = Media.JSON
    view: View = View.OBJECT
    #: Of ``meta.k8s.io``, as tables and metadata say it.
    version: str = "v1"
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    media: Media
    view: View
    version: str
    pretty: bool


def look_of(
    request: web.BaseRequest, views: frozenset[View] = ONE, media: frozenset[Media] = frozenset(Media)
) -> Look:
    """The first look of those on offer that the client takes. Raises HTTPNotAcceptable."""
    accept = ", ".join(request.headers.getall("Accept", ()))
    for clause in _clauses(accept):
        if clause.view in views and clause.media in media:
            return Look(clause.media, clause.view, clause.version, is_pretty(request, asked=clause.pretty))
    raise web.HTTPNotAcceptable(text=f"only these types can be had here: {', '.join(_offers(views, media))}")


def _offers(views: frozenset[View], media: frozenset[Media]) -> Iterator[str]:
    for kind in Media:
        if kind in media:
            for view in View:
                if view in views:
                    yield f"{kind};as={view};v=v1;g=meta.k8s.io" if view else kind


def is_pretty(request: web.BaseRequest, *, asked: bool = False) -> bool:
    """Whether JSON comes in lines; *asked* is what its Accept header says."""
    if "pretty" in request.query:
        return flag(request.query, "pretty")
    return asked or request.headers.get("User-Agent", "").startswith(_FOR_PEOPLE)


@lru_cache(maxsize=256)
def _clauses(accept: str) -> tuple[_Clause, ...]:
    """The clauses that mean something here, the most wanted first; nothing said is JSON."""
    found = (_clause(media, parameters) for media, parameters in clauses_of(accept))
    return tuple(clause for clause in found if clause is not None)


def _clause(name: str, parameters: dict[str, str]) -> _Clause | None:
    """None for a type or a form of it that nobody here can write."""
    media = _MEDIA.get(name)
    if media is None or parameters.get("as", "") not in set(View):
        return None
    view = View(parameters.get("as", ""))
    version = parameters.get("v", "v1")
    if view is not View.OBJECT and (
        version not in ("v1", "v1beta1") or parameters.get("g", "meta.k8s.io") != "meta.k8s.io"
    ):
        return None
    return _Clause(media, view, version, parameters.get("pretty", "") == "1")
