"""GET of one object or a list."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web

from launcher.api.http.content_negotiation import (
    LIST_REPRESENTATIONS,
    OBJECT_REPRESENTATIONS,
    negotiate_format,
)
from launcher.api.http.request_options import ListOptions, VersionMatch, list_options
from launcher.api.http.responses import respond
from launcher.api.http.status import ResourceVersionTooLarge
from launcher.api.resources.object_views import ObjectPrinter, include_option
from launcher.core.names import PodIdentityKey
from launcher.store.embedded.embedded_store import EmbeddedStore, TextPage
from launcher.store.interface import PODS, Object, ResourceKind, Version
from launcher.store.selectors import (
    EVERYTHING,
    FieldRequirement,
    LabelRequirement,
    NameFilter,
    Operator,
    Selector,
)

#: A request for a resourceVersion of the future waits this long for it.
FRESHNESS_SECONDS = 3.0


class ReadHandler:
    """Handles reads of one kind."""

    def __init__(self, kind: ResourceKind, store: EmbeddedStore, clock: Callable[[], float]) -> None:
        self._kind, self._store, self._clock = kind, store, clock

    async def get(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Returns one object; also serves its status subresource."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS)
        printer = ObjectPrinter(self._kind, response_format, include_option(request), self._clock)
        return await respond(request, response_format, printer.one(await self.one(namespace, name)))

    async def list(self, request: web.Request, namespace: str | None) -> web.StreamResponse:
        """Returns all matching objects, or a page of them."""
        response_format = negotiate_format(request, LIST_REPRESENTATIONS)
        printer = ObjectPrinter(self._kind, response_format, include_option(request), self._clock)
        options = list_options(request, self._kind, watch=False)
        if options.version and options.continue_token is None:
            await wait_for_version(self._store, options.version)
        page = await self.page(namespace, options)
        body = printer.many(list_metadata(page, options), page.texts)
        return await respond(request, response_format, body)

    async def one(self, namespace: str, name: str) -> Object:
        """Returns the object. Raises NotFound."""
        return await self._store.get(self._kind, namespace, name)

    async def page(self, namespace: str | None, options: ListOptions) -> TextPage:
        """Returns the matching objects, or a page of them. Raises Expired, BadRequest."""
        return await self._store.list_raw(
            self._kind,
            namespace,
            options.selector,
            limit=options.limit,
            continue_token=options.continue_token,
            at=options.version if options.match is VersionMatch.EXACT else None,
        )


class FrameworkReadHandler(ReadHandler):
    """Handles reads of Frameworks, which can also be listed by a part of their name and by node."""

    async def page(self, namespace: str | None, options: ListOptions) -> TextPage:
        """As for other kinds; *options* may limit the names."""
        if options.names is not None:
            among = await self._on_node(namespace, options.names.node) if options.names.node else None
            names = NameFilter(options.names.contains, among)
            options = replace(options, selector=replace(options.selector, names=names))
        return await super().page(namespace, options)

    async def _on_node(self, namespace: str | None, node: str) -> frozenset[tuple[str, str]]:
        """Returns the Frameworks with a pod on the node."""
        pods = await self._store.list(PODS, namespace, Selector(FRAMEWORK_PODS, (on_node(node),)))
        return frozenset(map(framework_key, pods.items))


#: Pods of Frameworks.
FRAMEWORK_PODS = (LabelRequirement(PodIdentityKey.FRAMEWORK_NAME, Operator.EXISTS),)


def on_node(node: str) -> FieldRequirement:
    """Selects the pods on a node."""
    return FieldRequirement("spec.nodeName", node)


def framework_key(pod: Object) -> tuple[str, str]:
    """Returns the namespace and name of a pod's Framework."""
    metadata = pod["metadata"]
    return metadata["namespace"], metadata["labels"][PodIdentityKey.FRAMEWORK_NAME]


async def wait_for_version(store: EmbeddedStore, version: Version) -> None:
    """Returns when the store has reached *version*. Raises ResourceVersionTooLarge after a timeout."""
    try:
        async with asyncio.timeout(FRESHNESS_SECONDS):
            await store.wait_until_fresh(version)
    except TimeoutError as error:
        raise ResourceVersionTooLarge(
            f"Too large resource version: {version}, current: {store.version}"
        ) from error


def list_metadata(page: TextPage, options: ListOptions) -> Object:
    """Returns the metadata of a list."""
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.continue_token is not None:
        metadata["continue"] = page.continue_token
        # As in Kubernetes, unset if there is a selector, since matching objects are not counted.
        if options.selector == EVERYTHING and options.names is None:
            metadata["remainingItemCount"] = page.remaining
    return metadata
