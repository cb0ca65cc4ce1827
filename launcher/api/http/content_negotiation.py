"""Content negotiation: the format of a response, by the Accept header of its request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from aiohttp import hdrs, web

from launcher.api.http.query import flag
from launcher.core.parsing.decoder import Media


def accept_clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields each accepted media type with its parameters, by descending quality; an empty header accepts anything."""
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


#: Parameters that select an encoding, not a type.
_ENCODING_PARAMETERS = frozenset({"charset", "pretty"})
_ANY_TYPE = frozenset({"*/*", "application/*"})


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type with its parameters."""

    media: str
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def content_type(self) -> str:
        """The value of a Content-Type header; some clients distinguish responses by the parameters."""
        return ";".join((self.media, *(f"{name}={value}" for name, value in self.parameters)))


def negotiate_media_type(request: web.BaseRequest, available: Sequence[MediaType]) -> MediaType | None:
    """Returns the type that the client prefers, the first if it accepts any, or None if it accepts none."""
    for media, clause in accept_clauses(",".join(request.headers.getall(hdrs.ACCEPT, ()))):
        parameters = {name: value for name, value in clause.items() if name not in _ENCODING_PARAMETERS}
        if media in _ANY_TYPE and not parameters:
            return available[0]
        for media_type in available:
            if media_type.media == media and dict(media_type.parameters) == parameters:
                return media_type
    return None


#: Clients whose output people read.
_INTERACTIVE_CLIENTS = ("curl", "Wget", "Mozilla/5.0")
_MEDIA = {
    "application/json": Media.JSON,
    "application/yaml": Media.YAML,
    "application/*": Media.JSON,
    "*/*": Media.JSON,
}


class Representation(StrEnum):
    """How much of an object a response contains, by its name in an Accept header."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


#: Representations of an object or a stream, and of a list.
OBJECT_REPRESENTATIONS = frozenset({Representation.OBJECT, Representation.TABLE, Representation.METADATA})
LIST_REPRESENTATIONS = frozenset({Representation.OBJECT, Representation.TABLE, Representation.METADATA_LIST})


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The format of a response."""

    media: Media = Media.JSON
    representation: Representation = Representation.OBJECT
    #: The version of ``meta.k8s.io`` for tables and metadata.
    version: str = "v1"
    pretty: bool = False


def negotiate_format(
    request: web.BaseRequest,
    representations: frozenset[Representation] = OBJECT_REPRESENTATIONS,
    media: frozenset[Media] = frozenset(Media),
) -> ResponseFormat:
    """Returns the available format that the client prefers. Raises HTTPNotAcceptable."""
    accept = ", ".join(request.headers.getall("Accept", ()))
    for clause in _clauses(accept):
        if clause.representation in representations and clause.media in media:
            return ResponseFormat(
                clause.media,
                clause.representation,
                clause.version,
                is_pretty(request, requested=clause.pretty),
            )
    supported = ", ".join(_supported(representations, media))
    raise web.HTTPNotAcceptable(text=f"only the following media types are supported: {supported}")


def _supported(representations: frozenset[Representation], media: frozenset[Media]) -> Iterator[str]:
    for kind in Media:
        if kind in media:
            for representation in Representation:
                if representation in representations:
                    yield f"{kind};as={representation};v=v1;g=meta.k8s.io" if representation else kind


def is_pretty(request: web.BaseRequest, *, requested: bool = False) -> bool:
    """Whether JSON is indented; *requested* is the choice of the Accept header."""
    if "pretty" in request.query:
        return flag(request.query, "pretty")
    return requested or request.headers.get("User-Agent", "").startswith(_INTERACTIVE_CLIENTS)


@lru_cache(maxsize=256)
def _clauses(accept: str) -> tuple[ResponseFormat, ...]:
    """Returns the supported clauses by descending quality; an empty header is JSON."""
    formats = (_clause(media, parameters) for media, parameters in accept_clauses(accept))
    return tuple(clause for clause in formats if clause is not None)


def _clause(name: str, parameters: dict[str, str]) -> ResponseFormat | None:
    """Returns the format that a clause names, or None if it is not supported."""
    media = _MEDIA.get(name)
    if media is None or parameters.get("as", "") not in set(Representation):
        return None
    representation = Representation(parameters.get("as", ""))
    version = parameters.get("v", "v1")
    if representation is not Representation.OBJECT and (
        version not in ("v1", "v1beta1") or parameters.get("g", "meta.k8s.io") != "meta.k8s.io"
    ):
        return None
    return ResponseFormat(media, representation, version, parameters.get("pretty", "") == "1")
