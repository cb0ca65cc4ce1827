"""HTTP handlers of one resource: maps methods and paths to verbs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from aiohttp import web

from launcher.api.api_resources import ApiResource
from launcher.api.http.status import set_error_target
from launcher.api.middleware.request_info import request_info
from launcher.api.resources.delete import DeleteHandler
from launcher.api.resources.patch import PatchHandler
from launcher.api.resources.reads import ReadHandler
from launcher.api.resources.watch import WatchHandler
from launcher.api.resources.writes import WriteHandler
from launcher.core.errors import BadRequest, NotFound
from launcher.core.validation.names import MAX_NAME, name_error, namespace_error
from launcher.store.interface import NAMESPACES

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Handles a request for one object, by its namespace and name.
ObjectHandler = Callable[[web.Request, str, str], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ResourceVerbs:
    """The handlers of one kind, by verb."""

    reader: ReadHandler
    writer: WriteHandler
    patcher: PatchHandler
    deleter: DeleteHandler
    watcher: WatchHandler
    #: Subresources and their handlers by method.
    subresources: Mapping[str, Mapping[str, ObjectHandler]]


class ResourceHandler:
    """Handles the paths of one kind."""

    def __init__(self, resource: ApiResource, verbs: ResourceVerbs) -> None:
        self._kind, self._verbs = resource.kind, frozenset(resource.verbs)
        self._handlers = verbs
        self._item_handlers: Mapping[str, tuple[str, ObjectHandler]] = {
            "GET": ("get", verbs.reader.get),
            "HEAD": ("get", verbs.reader.get),
            "PUT": ("update", verbs.writer.update),
            "PATCH": ("patch", verbs.patcher.patch),
            "DELETE": ("delete", verbs.deleter.delete),
        }

    async def all_namespaces(self, request: web.Request) -> web.StreamResponse:
        """``/frameworks``: list and watch of all namespaces."""
        set_error_target(request, self._kind)
        match request.method:
            case "GET" | "HEAD":
                return await self._list_or_watch(request, None)
            case "POST" | "PUT" | "PATCH" | "DELETE":
                raise NotFound(
                    f"the server could not find the requested resource: {self._kind.plural} are namespaced, use "
                    f"…/namespaces/NAMESPACE/{self._kind.plural}"
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
                self._require("create", request)
                return await self._handlers.writer.create(request, namespace)
            case "DELETE":
                self._require("deletecollection", request)
                return await self._handlers.deleter.delete_all(request, namespace)
            case "PUT" | "PATCH":
                raise BadRequest(f"name must be provided: use …/{self._kind.plural}/NAME")
            case method:
                raise self._not_allowed(method)

    async def item(self, request: web.Request) -> web.StreamResponse:
        """``…/frameworks/{name}``."""
        namespace, name = self._namespace_and_name(request)
        if request.method not in self._item_handlers:
            raise self._not_allowed(request.method)
        verb, handler = self._item_handlers[request.method]
        if verb not in self._verbs:
            raise self._not_allowed(request.method)
        return await handler(request, namespace, name)

    async def subresource(self, request: web.Request) -> web.StreamResponse:
        """``…/frameworks/{name}/status`` and other subresources. Raises NotFound for an unknown one."""
        namespace, name = self._namespace_and_name(request)
        handlers = self._handlers.subresources.get(request.match_info["part"])
        if handlers is None and self._kind == NAMESPACES:
            raise web.HTTPNotFound  # probably an unknown resource in a namespace
        if handlers is None:
            raise NotFound(f'{self._kind.resource} "{name}" not found')
        if (handler := handlers.get("GET" if request.method == "HEAD" else request.method)) is None:
            raise self._not_allowed(request.method)
        return await handler(request, namespace, name)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """``/watch/…``: the deprecated form of a watch, of all objects or of one."""
        name = request.match_info.get("name")
        set_error_target(request, self._kind, name or "")
        if request.method != "GET":
            raise self._not_allowed(request.method)
        self._require("watch", request)
        return await self._handlers.watcher.watch(request, request.match_info.get("namespace"), name)

    async def _list_or_watch(self, request: web.Request, namespace: str | None) -> web.StreamResponse:
        if request_info(request).verb == "watch":
            self._require("watch", request)
            return await self._handlers.watcher.watch(request, namespace)
        self._require("list", request)
        return await self._handlers.reader.list(request, namespace)

    def _namespace_and_name(self, request: web.Request) -> tuple[str, str]:
        namespace, name = request.match_info.get("namespace", ""), request.match_info["name"]
        set_error_target(request, self._kind, name)
        # No object has an invalid name; in a write, validation reports it.
        if request.method in _METHODS_OF_EXISTING and (
            name_error(name) or (namespace and namespace_error(namespace))
        ):
            raise NotFound(f'{self._kind.resource} "{name[:MAX_NAME]}" not found')
        return namespace, name

    def _require(self, verb: str, request: web.Request) -> None:
        if verb not in self._verbs:
            raise self._not_allowed(request.method)

    def _not_allowed(self, method: str) -> web.HTTPMethodNotAllowed:
        verb = _VERBS.get(method, method.lower())
        text = f'{verb} is not supported on resources of kind "{self._kind.resource}"'
        return web.HTTPMethodNotAllowed(method, (), text=text)


#: Methods that require an existing object.
_METHODS_OF_EXISTING = frozenset({"GET", "HEAD", "DELETE"})
_VERBS = {"POST": "create", "PUT": "update", "HEAD": "get"}


#: Subresources of pods that local mode does not support, and the reason.
UNSUPPORTED_SUBRESOURCES: Mapping[str, str] = {
    "binding": "pods are scheduled by the launcher; set spec.nodeName to choose the node of a pod",
    "ephemeralcontainers": "containers are processes of this machine; run commands in them with kubectl exec",
    "eviction": "there are no disruption budgets; delete the pod",
    "proxy": "use kubectl port-forward, or connect to the port at the IP in the pod's status",
    "resize": "the resources of a running container cannot be changed; create a new pod",
}


def unsupported_subresource(name: str) -> ObjectHandler:
    """Returns a handler that responds with 405 and the reason, which kubectl prints."""

    async def reject(request: web.Request, *_: str) -> NoReturn:
        reason = UNSUPPORTED_SUBRESOURCES[name]
        raise web.HTTPMethodNotAllowed(
            request.method, (), text=f"{name} is not supported in local mode: {reason}"
        )

    return reject
