"""Documents that come in more than one form: which of them a client wants."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aiohttp import hdrs, web

#: Parameters that say how to write, not what.
_MANNERS = frozenset({"q", "charset", "pretty"})
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


@dataclass(frozen=True, slots=True)
class _Clause:
    media: str
    parameters: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def takes(self, offer: Offer) -> bool:
        return offer.media == self.media and frozenset(offer.parameters) == self.parameters


def wanted(request: web.BaseRequest, offers: Sequence[Offer]) -> Offer | None:
    """The offer that the client wants most, the first where it takes any; None when it takes none of them."""
    for clause in _clauses(",".join(request.headers.getall(hdrs.ACCEPT, ()))):
        if clause.media in _ANYTHING and not clause.parameters:
            return offers[0]
        for offer in offers:
            if clause.takes(offer):
                return offer
    return None


def _clauses(accept: str) -> Iterator[_Clause]:
    """What the client takes, the most wanted first."""
    ranked: list[tuple[float, _Clause]] = []
    for text in (accept.strip() or "*/*").split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        said = {name.strip().lower(): value.strip().strip('"') for name, _, value in _pairs(rest)}
        clause = _Clause(media.lower(), frozenset(pair for pair in said.items() if pair[0] not in _MANNERS))
        if (quality := _quality(said.get("q", "1"))) > 0:
            ranked.append((-quality, clause))
    return (clause for _, clause in sorted(ranked, key=lambda pair: pair[0]))


def _pairs(parts: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return (part.partition("=") for part in parts)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
