"""What the stores inside this process have in common: everything but how a write is made to last."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from launcher.core.errors import AlreadyExists, LauncherError, NotFound
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
    Store,
    Subresource,
    Version,
    key_of,
)
from launcher.store.patch import patched
from launcher.store.selectors import EVERYTHING, Selector

_NAME_TRIES = 8
#: Rows of a list that are read before others get their turn.
_READ_AT_ONCE = 50
_SPELT_AT_ONCE = 5_000

#: Inside the store, whose ``list`` is another.
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class TextPage:
    """A Page whose objects are JSON text."""

    texts: Sequence[bytes]
    version: Version
    token: str | None
    remaining: int


class RawJsonStore(Store, Protocol):
    """A store inside this process, which has its objects as text, too; see ``LocalStore``."""

    @property
    def version(self) -> Version: ...

    async def list_raw(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
        at: Version | None = None,
    ) -> TextPage: ...

    async def wait_until_fresh(self, version: Version) -> None: ...

    def namespaces(self) -> set[str]: ...

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]: ...


class EmbeddedStore(ABC):
    """
    The port over a table in memory.

    Reads show what is in the table. A write is decided in one go, without a wait, on the state that all writes before
    it will have made; ``_save`` then makes it last, and puts it into the table with ``_show``.
    """

    def __init__(self, clock: Callable[[], float], new_uid: Callable[[], str], history: WatchCache) -> None:
        """*clock* gives seconds since 1970; *history* begins where the table stands."""
        self._clock = clock
        self._new_uid = new_uid
        self._table = Table()
        self._history = history
        self._lists = ListPager(self._rows_at, clock)

    @property
    def version(self) -> Version:
        """The last write that readers see."""
        return self._history.version

    @abstractmethod
    async def _ready(self) -> None:
        """Return when writes can be decided. Raises Unavailable."""

    @abstractmethod
    def _latest(self, resource: str, key: Key) -> Row | None:
        """The object as the writes so far will have left it."""

    @abstractmethod
    def _next_version(self) -> Version:
        """The version that the next write will have."""

    @abstractmethod
    async def _save(self, entry: Entry) -> None:
        """Take the write, then return when it will last. Raises Unavailable; then it never was."""

    @abstractmethod
    async def _wait_committed(self, resource: str, key: Key) -> None:
        """Return when what ``_latest`` says will last. Raises Unavailable when it never was."""

    def _publish(self, entry: Entry) -> None:
        """From now on readers see the write, and followers hear of it."""
        if entry.happened is ChangeType.DELETED:
            self._table.remove(entry.row)
        else:
            self._table.put(entry.row)
        self._history.add(entry)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        row = self._table.get(kind.resource, (namespace, name))
        if row is None:
            raise _not_found(kind, name)
        return row.object()

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        part = self._lists.part(ListQuery(kind.resource, namespace, where), self.version, limit, token)
        items: list[Object] = []
        for first in range(0, len(part.rows), _READ_AT_ONCE):
            if first:
                await asyncio.sleep(0)
            items += [row.object() for row in part.rows[first : first + _READ_AT_ONCE]]
        return Page(items, part.version, part.token, part.remaining)

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
        """
        As ``list``, with each object as its JSON text, which takes a fraction of the time.

        With *at*, everything as it was at that version, which must have been reached. Raises Expired when that is no
        longer known.
        """
        now = self.version if at is None else at
        part = self._lists.part(ListQuery(kind.resource, namespace, where), now, limit, token)
        texts: list[bytes] = []
        for first in range(0, len(part.rows), _SPELT_AT_ONCE):
            if first:
                await asyncio.sleep(0)
            texts += [row.text() for row in part.rows[first : first + _SPELT_AT_ONCE]]
        return TextPage(texts, part.version, part.token, part.remaining)

    def _rows_at(self, question: ListQuery, version: Version) -> Rows | None:
        """What answers the question as of *version*: today's rows, and for what has changed since, those before."""
        if version == self.version:
            return self._table.select(question.resource, question.namespace, question.where)
        since = self._history.since(version)
        if since is None:
            return None
        before: dict[Key, Row | None] = {}
        for entry in since:
            if entry.row.resource == question.resource and question.namespace in (None, entry.row.key[0]):
                before.setdefault(entry.row.key, entry.before)
        today = self._table.select(question.resource, question.namespace, question.where)
        rows = [row for row in today if row.key not in before]
        rows += [row for row in before.values() if row is not None and row.matches(question.where)]
        return sorted(rows, key=attrgetter("key"))

    async def wait_until_fresh(self, version: Version) -> None:
        """Return when readers see the write of that version."""
        await self._history.reached(version)

    def namespaces(self) -> set[str]:
        """The names of those that hold objects."""
        return self._table.namespaces()

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        """As the port says; with *seconds*, it ends by itself after so many, and a bookmark tells shortly before."""
        return self._history.follow(kind, namespace, where, since, bookmarks=bookmarks, seconds=seconds)

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        await self._ready()
        for _ in range(_NAME_TRIES):
            new = strategy.created(kind, obj, uid=self._new_uid(), now=self._clock())
            key = key_of(new)
            there = self._latest(kind.resource, key)
            if there is None:
                break
            if obj["metadata"].get("name"):
                await self._wait_committed(kind.resource, key)
                raise _already_exists(kind, there)
        else:
            raise AlreadyExists(
                f"no free name was found for {kind.resource} {obj['metadata']['generateName']!r}"
            )
        row = new_row(kind.resource, key, new, self._next_version())
        if dry_run:
            return new
        await self._save(Entry(ChangeType.ADDED, row))
        new["metadata"]["resourceVersion"] = str(row.version)
        return new

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        obj = strategy.addressed(kind, obj)

        def decide(before: Row, version: Version) -> Entry:
            stored = before.object()
            new = strategy.updated(kind, stored, obj)
            return _replacement(
                before, strategy.with_scheduled_condition(kind, stored, new, self._clock()), version
            )

        row = await self._change(kind, key_of(obj), decide, dry_run=dry_run)
        return row.object()

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        obj = strategy.addressed(kind, obj)

        def decide(before: Row, version: Version) -> Entry:
            status = strategy.status_updated(kind, before.identity(), obj)
            return Entry(ChangeType.MODIFIED, before.with_status(status, version), before)

        row = await self._change(kind, key_of(obj), decide, dry_run=dry_run)
        answer = row.without_status()
        if row.status is not None:
            answer["status"] = obj["status"]
        return answer

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
        def decide(before: Row, version: Version) -> Entry:
            stored = before.object()
            new = strategy.normalized(kind, patched(stored, patch))
            if subresource is None:
                new = strategy.patched(kind, stored, new)
                return _replacement(
                    before, strategy.with_scheduled_condition(kind, stored, new, self._clock()), version
                )
            status = strategy.status_patched(kind, stored, new)
            return Entry(ChangeType.MODIFIED, before.with_status(status, version), before)

        row = await self._change(kind, (namespace, name), decide, dry_run=dry_run)
        return row.object()

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        def decide(before: Row, version: Version) -> Entry:
            waiting = strategy.deleted(kind, before.object(), how, self._clock())
            if waiting is not None:
                return _replacement(before, waiting, version)
            return Entry(ChangeType.DELETED, before._replace(version=version), before)

        row = await self._change(kind, (namespace, name), decide, dry_run=dry_run)
        return row.object()

    async def _change(
        self, kind: ResourceKind, key: Key, decide: Callable[[Row, Version], Entry], *, dry_run: bool
    ) -> Row:
        """The object as it is after what *decide* makes of its last version."""
        await self._ready()
        before = self._latest(kind.resource, key)
        if before is None:
            await self._wait_committed(kind.resource, key)
            raise _not_found(kind, key[1])
        try:
            entry = decide(before, self._next_version())
        except LauncherError:
            # No is an answer as well: it must not rest on a write that then never was.
            await self._wait_committed(kind.resource, key)
            raise
        if entry.happened is ChangeType.MODIFIED and entry.row.same_as(before):
            await self._wait_committed(kind.resource, key)
            return before
        if dry_run:
            return entry.row._replace(version=before.version)
        await self._save(entry)
        return entry.row


def _replacement(before: Row, obj: Object, version: Version) -> Entry:
    # The last finalizer may just have gone.
    happened = ChangeType.DELETED if strategy.can_be_removed(obj) else ChangeType.MODIFIED
    return Entry(happened, before.with_object(obj, version), before)


def _not_found(kind: ResourceKind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found')


def _already_exists(kind: ResourceKind, row: Row) -> AlreadyExists:
    going = "deletionTimestamp" in row.object()["metadata"]
    return AlreadyExists(
        f'{kind.resource} "{row.key[1]}" already exists'
        + (", and is being deleted: wait until it is gone" if going else "")
    )
