"""What a request asks for, read off its method and path alone: before any route, body or credential is looked at."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from launcher.api.api_resources import API_RESOURCES

_KNOWN = {
    (served.kind.group, served.kind.version, served.kind.plural): frozenset(
        sub.name for sub in served.subresources
    )
    for served in API_RESOURCES
}
_ON_ONE = {
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
}
_ON_ALL = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Parts of an object that are spoken with for as long as somebody likes.
_LASTING = frozenset({"attach", "exec", "portforward", "proxy"})
_RENDEZVOUS = re.compile(
    r"/rendezvous/v1/(namespaces/[a-z0-9-]+/frameworks/[a-z0-9-]+/attempts/[0-9]+|programs/[a-z_.]+)"
)
_PROBE = re.compile(r"/(healthz|livez|readyz)(/[a-z-]*)?|/version/?")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """One request in Kubernetes' terms. Names that are not ours are left out, so that the values are few."""

    #: As in RBAC; empty for a method that means nothing here.
    verb: str
    #: ``pods``; empty when the path is about no resource.
    resource: str = ""
    subresource: str = ""
    writes: bool = False
    #: Takes as long as its client likes: a watch, or a log.
    long_running: bool = False


def call_of(request: web.BaseRequest) -> RequestInfo:
    """What *request* asks for."""
    if is_rendezvous(request):
        return RequestInfo("watch", "rendezvous", long_running=True)
    writes = request.method not in _READS
    group, version, rest = _split(request.rel_url.raw_path.strip("/").split("/"))
    watched = rest[:1] == ["watch"]
    rest = rest[1:] if watched else rest
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    subresources = _KNOWN.get((group, version, rest[0])) if rest else None
    if subresources is None:
        lasting = _lasts(rest, writes=writes) or (
            request.method == "GET" and (watched or flag(request.query, "watch"))
        )
        return RequestInfo(_ON_ONE.get(request.method, ""), writes=writes, long_running=lasting)
    resource = rest[0]
    if request.method == "GET" and (
        (watched and len(rest) <= 2) or (len(rest) == 1 and flag(request.query, "watch"))
    ):
        return RequestInfo("watch", resource, long_running=True)
    if len(rest) == 1:
        return RequestInfo(_ON_ALL.get(request.method, ""), resource, writes=writes)
    subresource = rest[2] if len(rest) > 2 and rest[2] in subresources else ""
    return RequestInfo(
        _ON_ONE.get(request.method, ""),
        resource,
        subresource,
        writes,
        long_running=_lasts(rest, writes=writes),
    )


def _lasts(rest: list[str], *, writes: bool) -> bool:
    spoken_with = rest[2] if len(rest) > 2 else ""
    return spoken_with in _LASTING or (spoken_with == "log" and not writes)


def is_probe(request: web.BaseRequest) -> bool:
    """Whether it only asks how or what the server is: answered to anybody at any time."""
    # To the letter, since such a request needs no token: nothing may follow that leads elsewhere.
    return _PROBE.fullmatch(request.rel_url.raw_path) is not None


def is_rendezvous(request: web.BaseRequest) -> bool:
    """Whether a pod asks for its peers: it shows a token of its own there, and waits as long as it takes."""
    # To the letter, for the same reason.
    return request.method == "GET" and _RENDEZVOUS.fullmatch(request.rel_url.raw_path) is not None


def flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a query parameter is on: any word but ``false`` and ``0`` turns it on, and so does none at all."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def _split(parts: list[str]) -> tuple[str, str, list[str]]:
    """Group, version, and the rest of the path."""
    match parts:
        case ["api", version, *rest]:
            return "", version, rest
        case ["apis", group, version, *rest]:
            return group, version, rest
        case _:
            return "", "", []
