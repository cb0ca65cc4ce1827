"""The resources: which method on which path is which verb, and whether that can be had."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from aiohttp import web

from launcher.api.api_resources import ApiResource
from launcher.api.http.status import set_error_target
from launcher.api.middleware.request_info import flag
from launcher.api.resources.delete import DeleteHandler
from launcher.api.resources.patch import Patcher
from launcher.api.resources.reads import Reader
from launcher.api.resources.watch import Watcher
from launcher.api.resources.writes import Writer
from launcher.core.errors import BadRequest, NotFound
from launcher.core.validation.names import MAX_NAME, name_fault, namespace_fault
from launcher.store.interface import NAMESPACES

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Answers a request about one object, by its namespace and name.
Act = Callable[[web.Request, str, str], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ResourceVerbs:
    """Who carries out what is asked of one kind."""

    reader: Reader
    writer: Writer
    patcher: Patcher
    remover: DeleteHandler
    watcher: Watcher
    #: Parts of an object with a path of their own, by method.
    subresources: Mapping[str, Mapping[str, Act]]


class ResourceHandler:
    """The paths of one kind."""

    def __init__(self, served: ApiResource, hands: ResourceVerbs) -> None:
        self._kind, self._verbs = served.kind, frozenset(served.verbs)
        self._reader, self._watcher, self._hands = hands.reader, hands.watcher, hands
        self._acts: Mapping[str, tuple[str, Act]] = {
            "GET": ("get", hands.reader.get),
            "HEAD": ("get", hands.reader.get),
            "PUT": ("update", hands.writer.update),
            "PATCH": ("patch", hands.patcher.patch),
            "DELETE": ("delete", hands.remover.delete),
        }

    async def all_namespaces(self, request: web.Request) -> web.StreamResponse:
        """``/frameworks``: lists and watches over all namespaces, and nothing else."""
        set_error_target(request, self._kind)
        match request.method:
            case "GET" | "HEAD":
                return await self._list_or_watch(request, None)
            case "POST" | "PUT" | "PATCH" | "DELETE":
                raise NotFound(
                    f"the server could not find the requested resource: {self._kind.plural} are written in a "
                    f"namespace, at …/namespaces/NAMESPACE/{self._kind.plural}"
                )
            case method:
                raise self._not_allowed(method)

    async def collection(self, request: web.Request) -> web.StreamResponse:
        """``/namespaces/{namespace}/frameworks``."""
        set_error_target(request, self._kind)
        namespace = request.match_info.get("namespace", "")
        match request.method:
            case "GET" | "HEAD":
                return await self._list_or_watch(request, namespace if self._kind.namespaced else None)
            case "POST":
                self._need("create", request)
                return await self._hands.writer.create(request, namespace)
            case "DELETE":
                self._need("deletecollection", request)
                return await self._hands.remover.delete_all(request, namespace)
            case "PUT" | "PATCH":
                raise BadRequest(
                    f"the name is missing: the address of one object ends with /{self._kind.plural}/NAME"
                )
            case method:
                raise self._not_allowed(method)

    async def item(self, request: web.Request) -> web.StreamResponse:
        """``…/frameworks/{name}``."""
        namespace, name = self._named(request)
        if request.method not in self._acts:
            raise self._not_allowed(request.method)
        verb, act = self._acts[request.method]
        if verb not in self._verbs:
            raise self._not_allowed(request.method)
        return await act(request, namespace, name)

    async def subresource(self, request: web.Request) -> web.StreamResponse:
        """``…/frameworks/{name}/status`` and the like. Raises NotFound for a part that there is not."""
        namespace, name = self._named(request)
        acts = self._hands.subresources.get(request.match_info["part"])
        if acts is None and self._kind == NAMESPACES:
            raise web.HTTPNotFound  # more likely a resource that there is not
        if acts is None:
            raise NotFound(f'{self._kind.resource} "{name}" not found')
        if (act := acts.get("GET" if request.method == "HEAD" else request.method)) is None:
            raise self._not_allowed(request.method)
        return await act(request, namespace, name)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """``/watch/…``: the deprecated form of a watch, of all objects or of the one that is named."""
        name = request.match_info.get("name")
        set_error_target(request, self._kind, name or "")
        if request.method != "GET":
            raise self._not_allowed(request.method)
        self._need("watch", request)
        return await self._watcher.watch(request, request.match_info.get("namespace"), name)

    async def _list_or_watch(self, request: web.Request, namespace: str | None) -> web.StreamResponse:
        if flag(request.query, "watch") and request.method == "GET":
            self._need("watch", request)
            return await self._watcher.watch(request, namespace)
        self._need("list", request)
        return await self._reader.list(request, namespace)

    def _named(self, request: web.Request) -> tuple[str, str]:
        namespace, name = request.match_info.get("namespace", ""), request.match_info["name"]
        set_error_target(request, self._kind, name)
        # What cannot be a name names nothing; what would be stored under it, the rules refuse.
        if request.method in _OF_EXISTING and (
            name_fault(name) or (namespace and namespace_fault(namespace))
        ):
            raise NotFound(f'{self._kind.resource} "{name[:MAX_NAME]}" not found')
        return namespace, name

    def _need(self, verb: str, request: web.Request) -> None:
        if verb not in self._verbs:
            raise self._not_allowed(request.method)

    def _not_allowed(self, method: str) -> web.HTTPMethodNotAllowed:
        verb = _VERBS.get(method, method.lower())
        text = f'{verb} is not supported on resources of kind "{self._kind.resource}"'
        return web.HTTPMethodNotAllowed(method, (), text=text)


#: Methods that need an object which is there.
_OF_EXISTING = frozenset({"GET", "HEAD", "DELETE"})
_VERBS = {"POST": "create", "PUT": "update", "HEAD": "get"}


_LOOK_YOURSELF = (
    "a container is a process of the machine that the launcher runs on: find it there with ps, look at what it "
    "sees with nsenter --target PID --mount, and read what it writes with kubectl logs"
)
#: Parts of a pod that clients ask for, and why they are not to be had.
UNOFFERED: Mapping[str, str] = {
    "attach": _LOOK_YOURSELF,
    "binding": "pods are placed by the launcher's own scheduler; a pod that sets spec.nodeName goes straight there",
    "ephemeralcontainers": _LOOK_YOURSELF,
    "eviction": "there are no disruption budgets to keep to; delete the pod",
    "exec": _LOOK_YOURSELF,
    "portforward": "a container listens on this machine itself: connect to its port at the IP in the pod's status",
    "proxy": "a container listens on this machine itself: connect to its port at the IP in the pod's status",
    "resize": "a container keeps the resources that it was started with; make a new pod",
}


def not_offered(part: str) -> Act:
    """What answers a request for that part of a pod: 405, with the reason, which kubectl prints."""

    async def refuse(request: web.Request, *_: str) -> NoReturn:
        raise web.HTTPMethodNotAllowed(
            request.method, (), text=f"{part} is not offered here: {UNOFFERED[part]}"
        )

    return refuse
