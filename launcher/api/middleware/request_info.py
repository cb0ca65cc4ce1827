"""Request info: verb, resource and subresource of a request, parsed once from its method and path."""

import re
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.api_resources import API_RESOURCES, ApiResource
from launcher.api.http.query import flag

_RESOURCES = {
    (resource.kind.group, resource.kind.version, resource.kind.plural): resource for resource in API_RESOURCES
}
_ITEM_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
#: Subresources that are open for as long as the client stays connected.
_LONG_RUNNING = frozenset({"attach", "exec", "portforward", "proxy"})
_RENDEZVOUS = re.compile(
    r"/rendezvous/v1/(namespaces/[a-z0-9-]+/frameworks/[a-z0-9-]+/attempts/[0-9]+|programs/[a-z_.]+)"
)
_PROBE = re.compile(r"/(healthz|livez|readyz)(/[a-z-]*)?|/version/?")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """
    One request in Kubernetes' terms.

    Unknown resources and subresources are left empty, so that metric labels have few values.
    """

    #: As in RBAC; empty for a method without a verb.
    verb: str
    #: ``pods``; empty for a path that names no resource.
    resource: str = ""
    subresource: str = ""
    writes: bool = False
    #: The client decides how long it takes: a watch or a log.
    long_running: bool = False
    #: The resource in the API group and version of the path.
    api_resource: ApiResource | None = field(default=None, compare=False)


_REQUEST_INFO = web.RequestKey("request_info", RequestInfo)


@web.middleware
async def request_info_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Stores the request info for all other middlewares and handlers; it must be the outermost one."""
    request[_REQUEST_INFO] = parse_request_info(request)
    return await handler(request)


def request_info(request: web.BaseRequest) -> RequestInfo:
    """Returns the info that the middleware stored."""
    return request[_REQUEST_INFO]


def parse_request_info(request: web.BaseRequest) -> RequestInfo:
    """Returns the info of *request*. No route, body or credential is read."""
    if is_rendezvous(request):
        return RequestInfo("watch", "rendezvous", long_running=True)
    writes = request.method not in _READ_METHODS
    group, version, rest = _split(request.rel_url.raw_path.strip("/").split("/"))
    watch_path = rest[:1] == ["watch"]
    rest = rest[1:] if watch_path else rest
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    api_resource = _RESOURCES.get((group, version, rest[0])) if rest else None
    if api_resource is None:
        long_running = _is_long_running(rest, writes=writes) or (
            request.method == "GET" and (watch_path or flag(request.query, "watch"))
        )
        return RequestInfo(_ITEM_VERBS.get(request.method, ""), writes=writes, long_running=long_running)
    if request.method == "GET" and (
        (watch_path and len(rest) <= 2) or (len(rest) == 1 and flag(request.query, "watch"))
    ):
        return RequestInfo("watch", rest[0], long_running=True, api_resource=api_resource)
    if len(rest) == 1:
        verb = _COLLECTION_VERBS.get(request.method, "")
        return RequestInfo(verb, rest[0], writes=writes, api_resource=api_resource)
    subresources = {subresource.name for subresource in api_resource.subresources}
    return RequestInfo(
        _ITEM_VERBS.get(request.method, ""),
        rest[0],
        rest[2] if len(rest) > 2 and rest[2] in subresources else "",
        writes,
        long_running=_is_long_running(rest, writes=writes),
        api_resource=api_resource,
    )


def _is_long_running(rest: list[str], *, writes: bool) -> bool:
    subresource = rest[2] if len(rest) > 2 else ""
    return subresource in _LONG_RUNNING or (subresource == "log" and not writes)


def is_probe(request: web.BaseRequest) -> bool:
    """Whether *request* reads health or version, which needs no token and is never limited."""
    # The whole path must match: a longer one could lead to a resource that needs a token.
    return _PROBE.fullmatch(request.rel_url.raw_path) is not None


def is_rendezvous(request: web.BaseRequest) -> bool:
    """Whether a pod requests the addresses of its peers, with a token of its own and as a long poll."""
    # The whole path must match, for the same reason.
    return request.method == "GET" and _RENDEZVOUS.fullmatch(request.rel_url.raw_path) is not None


def _split(parts: list[str]) -> tuple[str, str, list[str]]:
    """Returns the group, the version and the rest of the path."""
    match parts:
        case ["api", version, *rest]:
            return "", version, rest
        case ["apis", group, version, *rest]:
            return group, version, rest
        case _:
            return "", "", []
