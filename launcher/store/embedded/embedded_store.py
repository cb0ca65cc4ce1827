"""Common part of the in-process stores: everything except durability."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from launcher.core.errors import AlreadyExists, LauncherError, NotFound
from launcher.core.pods.observed_pod import is_deleted
from launcher.store import strategy
from launcher.store.embedded.pagination import ListPager, ListQuery
from launcher.store.embedded.rows import Entry, Row, new_row
from launcher.store.embedded.table import Table
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import (
    Change,
    ChangeType,
    DeleteOptions,
    Key,
    Object,
    Page,
    Patch,
    ResourceKind,
    Subresource,
    Version,
    key_of,
)
from launcher.store.patch import apply_patch
from launcher.store.selectors import EVERYTHING, Selector

_MAX_NAME_ATTEMPTS = 8
#: Rows read before the event loop runs other tasks.
_READ_BATCH = 50
_SERIALIZE_BATCH = 5_000

#: Alias for annotations inside the class, where ``list`` is a method.
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class TextPage:
    """A Page with objects as JSON text."""

    texts: Sequence[bytes]
    version: Version
    continue_token: str | None
    remaining: int


class EmbeddedStore(ABC):
    """
    Store over a table in memory.

    Reads return the content of the table. A write is computed without awaiting, on the state that all earlier writes
    will produce; ``_save`` then makes it durable and calls ``_publish``.
    """

    def __init__(
        self, clock: Callable[[], float], new_uid: Callable[[], str], watch_cache: WatchCache
    ) -> None:
        """*clock* returns seconds since 1970; *watch_cache* starts at the version of the table."""
        self._clock = clock
        self._new_uid = new_uid
        self._table = Table()
        self._watch_cache = watch_cache
        self._lists = ListPager(self._rows_at, clock)

    @property
    def version(self) -> Version:
        """The version of the last published write."""
        return self._watch_cache.version

    @abstractmethod
    async def _wait_until_ready(self) -> None:
        """Waits until writes can be computed. Raises Unavailable."""

    @abstractmethod
    def _latest(self, resource: str, key: Key) -> Row | None:
        """Returns the object after all writes so far, including those not yet durable."""

    @abstractmethod
    def _next_version(self) -> Version:
        """Returns the version of the next write."""

    @abstractmethod
    async def _save(self, entry: Entry) -> None:
        """Accepts the write and waits until it is durable. Raises Unavailable if it had no effect."""

    @abstractmethod
    async def _wait_committed(self, resource: str, key: Key) -> None:
        """Waits until the result of ``_latest`` is durable. Raises Unavailable if it failed."""

    def _publish(self, entry: Entry) -> None:
        """Makes the write visible to readers and watchers."""
        if entry.type is ChangeType.DELETED:
            self._table.remove(entry.row)
        else:
            self._table.put(entry.row)
        self._watch_cache.add(entry)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        row = self._table.get(kind.resource, (namespace, name))
        if row is None:
            raise _not_found(kind, name)
        return row.object()

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Page:
        part = self._lists.page(
            ListQuery(kind.resource, namespace, selector), self.version, limit, continue_token
        )
        items: list[Object] = []
        for first in range(0, len(part.rows), _READ_BATCH):
            if first:
                await asyncio.sleep(0)
            items += [row.object() for row in part.rows[first : first + _READ_BATCH]]
        return Page(items, part.version, part.continue_token, part.remaining)

    async def list_raw(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
        at: Version | None = None,
    ) -> TextPage:
        """
        Like ``list``, with objects as JSON text, in a fraction of the time.

        *at* requests the state at that version, which must have been reached. Raises Expired if it is no longer
        available.
        """
        now = self.version if at is None else at
        part = self._lists.page(ListQuery(kind.resource, namespace, selector), now, limit, continue_token)
        texts: list[bytes] = []
        for first in range(0, len(part.rows), _SERIALIZE_BATCH):
            if first:
                await asyncio.sleep(0)
            texts += [row.text() for row in part.rows[first : first + _SERIALIZE_BATCH]]
        return TextPage(texts, part.version, part.continue_token, part.remaining)

    def _rows_at(self, query: ListQuery, version: Version) -> Rows | None:
        """Returns the rows at *version*: current rows with later changes reverted. None if no longer available."""
        if version == self.version:
            return self._table.select(query.resource, query.namespace, query.selector)
        since = self._watch_cache.entries_since(version)
        if since is None:
            return None
        before: dict[Key, Row | None] = {}
        for entry in since:
            if entry.row.resource == query.resource and query.namespace in (None, entry.row.key[0]):
                before.setdefault(entry.row.key, entry.before)
        current = self._table.select(query.resource, query.namespace, query.selector)
        rows = [row for row in current if row.key not in before]
        rows += [row for row in before.values() if row is not None and row.matches(query.selector)]
        return sorted(rows, key=attrgetter("key"))

    async def wait_until_fresh(self, version: Version) -> None:
        """Waits until the write of that version is visible to readers."""
        await self._watch_cache.wait_for_version(version)

    def namespaces(self) -> set[str]:
        """Returns the namespaces that contain objects."""
        return self._table.namespaces()

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        """As in the interface. With *seconds* the watch ends after that time, with a bookmark shortly before."""
        return self._watch_cache.watch(kind, namespace, selector, since, bookmarks=bookmarks, seconds=seconds)

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        await self._wait_until_ready()
        for _ in range(_MAX_NAME_ATTEMPTS):
            new = strategy.prepare_create(kind, obj, uid=self._new_uid(), now=self._clock())
            key = key_of(new)
            existing = self._latest(kind.resource, key)
            if existing is None:
                break
            if obj["metadata"].get("name"):
                await self._wait_committed(kind.resource, key)
                raise _already_exists(kind, existing)
        else:
            raise AlreadyExists(
                f"no unused name found for {kind.resource} {obj['metadata']['generateName']!r}"
            )
        row = new_row(kind.resource, key, new, self._next_version())
        if dry_run:
            return new
        await self._save(Entry(ChangeType.ADDED, row))
        new["metadata"]["resourceVersion"] = str(row.version)
        return new

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        obj = strategy.normalize_existing(kind, obj)

        def prepare(before: Row, version: Version) -> Entry:
            stored = before.object()
            new = strategy.prepare_update(kind, stored, obj)
            return _replacement(
                before, strategy.with_scheduled_condition(kind, stored, new, self._clock()), version
            )

        row = await self._change(kind, key_of(obj), prepare, dry_run=dry_run)
        return row.object()

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        obj = strategy.normalize_existing(kind, obj)

        def prepare(before: Row, version: Version) -> Entry:
            status = strategy.prepare_status_update(kind, before.identity(), obj)
            return Entry(ChangeType.MODIFIED, before.with_status(status, version), before)

        row = await self._change(kind, key_of(obj), prepare, dry_run=dry_run)
        response = row.without_status()
        if row.status is not None:
            response["status"] = obj["status"]
        return response

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
        def prepare(before: Row, version: Version) -> Entry:
            stored = before.object()
            new = strategy.normalize(kind, apply_patch(stored, patch))
            if subresource is None:
                new = strategy.prepare_patch(kind, stored, new)
                return _replacement(
                    before, strategy.with_scheduled_condition(kind, stored, new, self._clock()), version
                )
            status = strategy.prepare_status_patch(kind, stored, new)
            return Entry(ChangeType.MODIFIED, before.with_status(status, version), before)

        row = await self._change(kind, (namespace, name), prepare, dry_run=dry_run)
        return row.object()

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        def prepare(before: Row, version: Version) -> Entry:
            pending_deletion = strategy.prepare_delete(kind, before.object(), options, self._clock())
            if pending_deletion is not None:
                return _replacement(before, pending_deletion, version)
            return Entry(ChangeType.DELETED, before._replace(version=version), before)

        row = await self._change(kind, (namespace, name), prepare, dry_run=dry_run)
        return row.object()

    async def _change(
        self, kind: ResourceKind, key: Key, prepare: Callable[[Row, Version], Entry], *, dry_run: bool
    ) -> Row:
        """Applies *prepare* to the latest version of the object and returns the result."""
        await self._wait_until_ready()
        before = self._latest(kind.resource, key)
        if before is None:
            await self._wait_committed(kind.resource, key)
            raise _not_found(kind, key[1])
        try:
            entry = prepare(before, self._next_version())
        except LauncherError:
            # A rejection must not be based on a write that then fails.
            await self._wait_committed(kind.resource, key)
            raise
        if entry.type is ChangeType.MODIFIED and entry.row.same_as(before):
            await self._wait_committed(kind.resource, key)
            return before
        if dry_run:
            return entry.row._replace(version=before.version)
        await self._save(entry)
        return entry.row


def _replacement(before: Row, obj: Object, version: Version) -> Entry:
    # The last finalizer may have been removed.
    change_type = ChangeType.DELETED if strategy.can_be_removed(obj) else ChangeType.MODIFIED
    return Entry(change_type, before.with_object(obj, version), before)


def _not_found(kind: ResourceKind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found')


def _already_exists(kind: ResourceKind, row: Row) -> AlreadyExists:
    return AlreadyExists(
        f'{kind.resource} "{row.key[1]}" already exists'
        + (" and is being deleted: wait until it is removed" if is_deleted(row.object()) else "")
    )
