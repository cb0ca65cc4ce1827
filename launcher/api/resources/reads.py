"""GET: one object, or a list."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from launcher.api.http.content_negotiation import MANY, ONE, negotiate_format
from launcher.api.http.request_options import ListOptions, Match, listing_of
from launcher.api.http.responses import respond
from launcher.api.http.status import ResourceVersionTooLarge
from launcher.api.resources.object_views import ObjectPrinter, include_of
from launcher.store.embedded.embedded_store import RawJsonStore, TextPage
from launcher.store.interface import Object, ResourceKind, Version

#: Seconds that a request for a version which has not been reached waits for it.
PATIENCE = 3.0


class Reader:
    """Answers reads of one kind."""

    def __init__(self, kind: ResourceKind, store: RawJsonStore, clock: Callable[[], float]) -> None:
        self._kind, self._store, self._clock = kind, store, clock

    async def get(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """One object, or its subresource of the same shape."""
        look = negotiate_format(request, ONE)
        viewer = ObjectPrinter(self._kind, look, include_of(request), self._clock)
        return await respond(request, look, viewer.one(await self.one(namespace, name)))

    async def list(self, request: web.Request, namespace: str | None) -> web.StreamResponse:
        """Everything that is asked for, or a page of it."""
        look = negotiate_format(request, MANY)
        viewer = ObjectPrinter(self._kind, look, include_of(request), self._clock)
        listing = listing_of(request, self._kind, watch=False)
        if listing.version and listing.token is None:
            await reached(self._store, listing.version)
        page = await self.page(namespace, listing)
        return await respond(request, look, viewer.many(metadata_of(page, listing), page.texts))

    async def one(self, namespace: str, name: str) -> Object:
        """The object. Raises NotFound."""
        return await self._store.get(self._kind, namespace, name)

    async def page(self, namespace: str | None, listing: ListOptions) -> TextPage:
        """What is to be listed. Raises Expired, BadRequest."""
        return await self._store.list_raw(
            self._kind,
            namespace,
            listing.where,
            limit=listing.limit,
            token=listing.token,
            at=listing.version if listing.match is Match.EXACT else None,
        )


async def reached(store: RawJsonStore, version: Version) -> None:
    """Return when the store is that far. Raises ResourceVersionTooLarge when it is not within a moment."""
    try:
        async with asyncio.timeout(PATIENCE):
            await store.wait_until_fresh(version)
    except TimeoutError as error:
        raise ResourceVersionTooLarge(
            f"Too large resource version: {version}, current: {store.version}; it may be another server's"
        ) from error


def metadata_of(page: TextPage, listing: ListOptions) -> Object:
    """The metadata of a list."""
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.token is not None:
        metadata["continue"] = page.token
        # As Kubernetes has it: what a selector leaves out need not be counted.
        if not listing.where.labels and not listing.where.fields:
            metadata["remainingItemCount"] = page.remaining
    return metadata
