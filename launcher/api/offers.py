"""Documents that come in more than one form: which of them a client wants."""

from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import hdrs, web

from launcher.api.accept import clauses_of

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
