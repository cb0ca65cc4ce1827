"""EndpointSlices and Endpoints: which pods each Service reaches. They are computed for each request, and not stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import (
    LIST_REPRESENTATIONS,
    OBJECT_REPRESENTATIONS,
    negotiate_format,
)
from launcher.api.http.query import flag
from launcher.api.http.request_options import list_options
from launcher.api.http.responses import respond
from launcher.api.http.status import set_error_target
from launcher.api.resources.object_views import ObjectPrinter, include_option
from launcher.core.errors import NotFound
from launcher.core.json_access import as_object
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.interface import PODS, SERVICES, Object, ResourceKind
from launcher.store.selectors import EVERYTHING, Selector

#: Returns the objects of a Service, given the pods that have the labels of its selector.
ComputeEndpoints = Callable[[Object, Sequence[Object]], Sequence[Object]]
_SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class ServiceEndpointsHandler:
    """Handles the paths of one of the kinds; *compute* returns its objects."""

    kind: ResourceKind
    compute: ComputeEndpoints
    store: EmbeddedStore
    clock: Callable[[], float]

    def add_to(self, app: web.Application) -> None:
        """Adds its routes to *app*."""
        base = f"/apis/{self.kind.api_version}" if self.kind.group else f"/api/{self.kind.version}"
        inside, plural = f"{base}/namespaces/{{namespace}}", self.kind.plural
        app.router.add_get(f"{base}/{plural}{{slash:/?}}", self.list)
        app.router.add_get(f"{inside}/{plural}{{slash:/?}}", self.list)
        app.router.add_get(f"{inside}/{plural}/{{name}}{{slash:/?}}", self.get)

    async def list(self, request: web.Request) -> web.StreamResponse:
        """``GET …/endpointslices``: those of a namespace, or of all."""
        set_error_target(request, self.kind)
        if flag(request.query, "watch"):
            text = f'watch is not supported on resources of kind "{self.kind.resource}"'
            raise web.HTTPMethodNotAllowed(request.method, (), text=text)
        response_format = negotiate_format(request, LIST_REPRESENTATIONS)
        printer = ObjectPrinter(self.kind, response_format, include_option(request), self.clock)
        selector = list_options(request, self.kind, watch=False).selector
        items = await self._items(request.match_info.get("namespace"), selector)
        metadata = {"resourceVersion": str(self.store.version)}
        return await respond(request, response_format, printer.many(metadata, map(orjson.dumps, items)))

    async def get(self, request: web.Request) -> web.StreamResponse:
        """``GET …/endpointslices/{name}``."""
        name = request.match_info["name"]
        set_error_target(request, self.kind, name)
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        printer = ObjectPrinter(self.kind, response_format, include_option(request), self.clock)
        items = await self._items(request.match_info["namespace"], Selector.for_name(name))
        if not items:
            raise NotFound(f'{self.kind.resource} "{name}" not found')
        return await respond(request, response_format, printer.one(items[0]))

    async def _items(self, namespace: str | None, selector: Selector) -> Sequence[Object]:
        """The objects that the selector matches; with the name of a Service, only its own are computed."""
        name = dict(selector.label_values()).get(_SERVICE_NAME)
        services = await self.store.list(SERVICES, namespace, Selector.for_name(name) if name else EVERYTHING)
        return [
            item for service in services.items for item in await self._of(service) if selector.matches(item)
        ]

    async def _of(self, service: Object) -> Sequence[Object]:
        labels = as_object(as_object(service.get("spec")).get("selector"))
        if not labels:
            return ()
        try:
            pods = await self.store.list(PODS, service["metadata"]["namespace"], Selector.for_labels(labels))
            return self.compute(service, pods.items)
        except (TypeError, ValueError):
            return ()  # a malformed Service, which the service proxy reports
