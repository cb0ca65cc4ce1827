"""Objects that are served in several versions and stored in one."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import orjson

from launcher.job_kinds.job_kind import noted
from launcher.store.embedded.embedded_store import RawJsonStore, TextPage
from launcher.store.interface import (
    Change,
    DeleteOptions,
    Object,
    Page,
    Patch,
    ResourceKind,
    Subresource,
    Version,
)
from launcher.store.selectors import EVERYTHING, Selector


class VersionedStore:
    """
    *store*, in which objects of the *stored* kind are of the *shown* one.

    What is written here first is marked: in another version some things meant something else.
    """

    def __init__(self, store: RawJsonStore, shown: ResourceKind, stored: ResourceKind) -> None:
        self._store, self._shown, self._stored = store, shown, stored

    @property
    def version(self) -> Version:
        return self._store.version

    async def wait_until_fresh(self, version: Version) -> None:
        await self._store.wait_until_fresh(version)

    def namespaces(self) -> set[str]:
        return self._store.namespaces()

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        return self._out(kind, await self._store.get(self._kept(kind), namespace, name))

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        page = await self._store.list(self._kept(kind), namespace, where, limit=limit, token=token)
        return replace(page, items=[self._out(kind, obj) for obj in page.items])

    async def list_raw(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
        at: Version | None = None,
    ) -> TextPage:
        page = await self._store.list_raw(self._kept(kind), namespace, where, limit=limit, token=token, at=at)
        return replace(page, texts=[orjson.dumps(self._out(kind, orjson.loads(text))) for text in page.texts])

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        changes = self._store.watch(
            self._kept(kind), namespace, where, since=since, bookmarks=bookmarks, seconds=seconds
        )
        async with aclosing(changes):
            async for change in changes:
                yield replace(change, object=self._out(kind, change.object))

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        new = noted(kind, self._in(kind, obj))
        return self._out(kind, await self._store.create(self._kept(kind), new, dry_run=dry_run))

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        new = self._in(kind, obj)
        return self._out(kind, await self._store.update(self._kept(kind), new, dry_run=dry_run))

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        new = self._in(kind, obj)
        return self._out(kind, await self._store.update_status(self._kept(kind), new, dry_run=dry_run))

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
        kept = self._kept(kind)
        changed = await self._store.patch(
            kept, namespace, name, patch, subresource=subresource, dry_run=dry_run
        )
        return self._out(kind, changed)

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        return self._out(
            kind, await self._store.delete(self._kept(kind), namespace, name, how, dry_run=dry_run)
        )

    def _kept(self, kind: ResourceKind) -> ResourceKind:
        return self._stored if kind == self._shown else kind

    def _in(self, kind: ResourceKind, obj: Object) -> Object:
        if kind != self._shown or obj.get("apiVersion") != kind.api_version:
            return obj  # what is wrong with it, the store says
        return {**obj, "apiVersion": self._stored.api_version}

    def _out(self, kind: ResourceKind, obj: Object) -> Object:
        return {**obj, "apiVersion": kind.api_version} if kind == self._shown else obj
