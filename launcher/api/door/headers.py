"""Which headers go through the door, and which belong to one side of it."""

from collections.abc import Iterable

from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy

#: They speak about one connection, and not about what is said over it.
_OF_ONE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
#: Made anew for the way onward; a body that waits to be asked for has been asked for here.
_MADE_ANEW = frozenset({"host", "content-length", "expect"})
#: By which a proxy that a cluster believes tells who calls. No caller of ours is one.
_OF_PROXIES = "x-remote-"
#: Where audit logs find out whom a proxy speaks for.
_FORWARDED = "X-Forwarded-For"


def onward(headers: CIMultiDictProxy[str], caller: str | None) -> CIMultiDict[str]:
    """What goes on to the API server of a request's *headers*, in their order; *caller* is its sender's address."""
    left = _own(headers) | _MADE_ANEW
    kept = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (low := name.lower()) not in left and not low.startswith(_OF_PROXIES)
    )
    if caller is not None:
        kept[_FORWARDED] = ", ".join([*kept.popall(_FORWARDED, []), caller])
    return kept


def back(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """What comes back to the caller of an answer's *headers*."""
    left = _own(headers)
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in left)


def _own(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    """The names of those that end here: the usual ones, and those that the sender names."""
    named = headers.getall(hdrs.CONNECTION, ())
    return _OF_ONE_CONNECTION | frozenset(_words(named)) if named else _OF_ONE_CONNECTION


def _words(values: Iterable[str]) -> Iterable[str]:
    return (word.strip().lower() for value in values for word in value.split(","))
