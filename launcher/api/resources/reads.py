"""GET: one object, or a list."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from launcher.api.http.content_negotiation import MANY, ONE, look_of
from launcher.api.http.request_options import Listing, Match, listing_of
from launcher.api.http.responses import answer
from launcher.api.http.status import VersionAhead
from launcher.api.resources.object_views import Viewer, include_of
from launcher.store.embedded.embedded_store import TextPage, TextStore
from launcher.store.interface import Kind, Object, Version

#: Seconds that a request for a version which has not been reached waits for it.
PATIENCE = 3.0


class Reader:
    """Answers reads of one kind."""

    def __init__(self, kind: Kind, store: TextStore, clock: Callable[[], float]) -> None:
        self._kind, self._store, self._clock = kind, store, clock

    async def get(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """One object, or its subresource of the same shape."""
        look = look_of(request, ONE)
        viewer = Viewer(self._kind, look, include_of(request), self._clock)
        return await answer(request, look, viewer.one(await self.one(namespace, name)))

    async def list(self, request: web.Request, namespace: str | None) -> web.StreamResponse:
        """Everything that is asked for, or a page of it."""
        look = look_of(request, MANY)
        viewer = Viewer(self._kind, look, include_of(request), self._clock)
        listing = listing_of(request, self._kind, watch=False)
        if listing.version and listing.token is None:
            await reached(self._store, listing.version)
        page = await self.page(namespace, listing)
        return await answer(request, look, viewer.many(metadata_of(page, listing), page.texts))

    async def one(self, namespace: str, name: str) -> Object:
        """The object. Raises NotFound."""
        return await self._store.get(self._kind, namespace, name)

    async def page(self, namespace: str | None, listing: Listing) -> TextPage:
        """What is to be listed. Raises Expired, BadRequest."""
        return await self._store.list_texts(
            self._kind,
            namespace,
            listing.where,
            limit=listing.limit,
            token=listing.token,
            at=listing.version if listing.match is Match.EXACT else None,
        )


async def reached(store: TextStore, version: Version) -> None:
    """Return when the store is that far. Raises VersionAhead when it is not within a moment."""
    try:
        async with asyncio.timeout(PATIENCE):
            await store.reached(version)
    except TimeoutError as error:
        raise VersionAhead(
            f"Too large resource version: {version}, current: {store.version}; it may be another server's"
        ) from error


def metadata_of(page: TextPage, listing: Listing) -> Object:
    """The metadata of a list."""
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.token is not None:
        metadata["continue"] = page.token
        # As Kubernetes has it: what a selector leaves out need not be counted.
        if not listing.where.labels and not listing.where.fields:
            metadata["remainingItemCount"] = page.remaining
    return metadata
