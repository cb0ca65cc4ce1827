"""A store that forwards every call to another one, for stores that change some of the calls."""

from collections.abc import AsyncIterator

from launcher.store.interface import (
    Change,
    DeleteOptions,
    Object,
    Page,
    Patch,
    ResourceKind,
    Store,
    Subresource,
    Version,
)
from launcher.store.selectors import EVERYTHING, Selector


class ForwardingStore:
    """Forwards to *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._store.create(kind, obj, dry_run=dry_run)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        return await self._store.get(kind, namespace, name)

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Page:
        return await self._store.list(kind, namespace, selector, limit=limit, continue_token=continue_token)

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        return self._store.watch(kind, namespace, selector, since=since, bookmarks=bookmarks)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._store.update(kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._store.update_status(kind, obj, dry_run=dry_run)

    async def patch(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: Subresource | None = None,
        dry_run: bool = False,
    ) -> Object:
        return await self._store.patch(kind, namespace, name, patch, subresource=subresource, dry_run=dry_run)

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        return await self._store.delete(kind, namespace, name, options, dry_run=dry_run)
