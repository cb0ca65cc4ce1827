"""What a client wants its answer to look like, as its Accept header says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from aiohttp import hdrs, web

from launcher.api.middleware.request_info import flag
from launcher.core.parsing.decoder import Media


def clauses_of(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each type that the client takes with its parameters, the most wanted first; nothing said is anything."""
    ranked: list[tuple[float, str, dict[str, str]]] = []
    for text in (accept.strip() or "*/*").split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        parameters = dict(map(_parameter, rest))
        if (quality := _quality(parameters.pop("q", "1"))) > 0:
            ranked.append((-quality, media.lower(), parameters))
    return ((media, parameters) for _, media, parameters in sorted(ranked, key=lambda clause: clause[0]))


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


#: Parameters that say how to write, not what.
_MANNERS = frozenset({"charset", "pretty"})
_ANYTHING = frozenset({"*/*", "application/*"})


@dataclass(frozen=True, slots=True)
class Offer:
    """One form that can be had."""

    media: str
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def content_type(self) -> str:
        """The type with its parameters: by them some clients tell what they got."""
        return ";".join((self.media, *(f"{name}={value}" for name, value in self.parameters)))


def wanted(request: web.BaseRequest, offers: Sequence[Offer]) -> Offer | None:
    """The offer that the client wants most, the first where it takes any; None when it takes none of them."""
    for media, said in clauses_of(",".join(request.headers.getall(hdrs.ACCEPT, ()))):
        parameters = {name: value for name, value in said.items() if name not in _MANNERS}
        if media in _ANYTHING and not parameters:
            return offers[0]
        for offer in offers:
            if offer.media == media and dict(offer.parameters) == parameters:
                return offer
    return None


#: Programs whose user reads along.
_FOR_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_MEDIA = {
    "application/json": Media.JSON,
    "application/yaml": Media.YAML,
    "application/*": Media.JSON,
    "*/*": Media.JSON,
}


class Representation(StrEnum):
    """How much of an object is shown, by the name that an Accept header has for it."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


#: What can be had of one object, of a list, and of a stream.
ONE = frozenset({Representation.OBJECT, Representation.TABLE, Representation.METADATA})
MANY = frozenset({Representation.OBJECT, Representation.TABLE, Representation.METADATA_LIST})


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What the answer looks like."""

    media: Media = Media.JSON
    view: Representation = Representation.OBJECT
    #: Of ``meta.k8s.io``, as tables and metadata say it.
    version: str = "v1"
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    media: Media
    view: Representation
    version: str
    pretty: bool


def negotiate_format(
    request: web.BaseRequest,
    views: frozenset[Representation] = ONE,
    media: frozenset[Media] = frozenset(Media),
) -> ResponseFormat:
    """The first look of those on offer that the client takes. Raises HTTPNotAcceptable."""
    accept = ", ".join(request.headers.getall("Accept", ()))
    for clause in _clauses(accept):
        if clause.view in views and clause.media in media:
            return ResponseFormat(
                clause.media, clause.view, clause.version, is_pretty(request, asked=clause.pretty)
            )
    raise web.HTTPNotAcceptable(text=f"only these types can be had here: {', '.join(_offers(views, media))}")


def _offers(views: frozenset[Representation], media: frozenset[Media]) -> Iterator[str]:
    for kind in Media:
        if kind in media:
            for view in Representation:
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
    if media is None or parameters.get("as", "") not in set(Representation):
        return None
    view = Representation(parameters.get("as", ""))
    version = parameters.get("v", "v1")
    if view is not Representation.OBJECT and (
        version not in ("v1", "v1beta1") or parameters.get("g", "meta.k8s.io") != "meta.k8s.io"
    ):
        return None
    return _Clause(media, view, version, parameters.get("pretty", "") == "1")
