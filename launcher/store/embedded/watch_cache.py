"""Watch cache: the latest changes, and the watchers."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from functools import cached_property
from itertools import islice
from math import inf
from operator import attrgetter

from launcher.core.errors import Expired, Unavailable
from launcher.store.embedded.rows import Entry, Row
from launcher.store.interface import Change, ChangeType, Object, ResourceKind, Version
from launcher.store.selectors import Selector

#: A few minutes of a busy store. A watcher further behind has to list again.
MAX_ENTRIES = 20_000
MAX_BYTES = 64 * 1024 * 1024
#: Changes queued per watcher. Beyond that it reads them from the cache, at its own pace.
_MAX_QUEUED = 1_000
_READ_CHUNK = 256
#: Seconds before its end at which a watch gets a last bookmark.
_LAST_BOOKMARK_SECONDS = 2.0
#: The version of an empty store. Not 0, which means any version to clients.
INITIAL_VERSION = 1


class _CachedChange:
    """An entry, parsed at most once for all watchers."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    @cached_property
    def now(self) -> Object:
        return self.entry.row.object()

    @cached_property
    def before(self) -> Object:
        """The object before the change, with the version of the change."""
        assert self.entry.before is not None
        return self.entry.before.object(self.entry.version)

    def visible_to(self, selector: Selector) -> Change | None:
        """Returns the change for a watcher with this selector, or None if it does not concern it."""
        entry = self.entry
        if not selector.labels and not selector.fields:
            return Change(entry.type, self.now, entry.version)
        exists = entry.type is not ChangeType.DELETED
        matched_before = entry.before is not None and self._matches(selector, entry.before, "before")
        matches = (exists or matched_before) and self._matches(selector, entry.row, "now")
        if matches and exists:
            return Change(
                ChangeType.MODIFIED if matched_before else ChangeType.ADDED, self.now, entry.version
            )
        if matched_before:
            return Change(ChangeType.DELETED, self.now if matches else self.before, entry.version)
        return None

    def _matches(self, selector: Selector, row: Row, state: str) -> bool:
        if not selector.matches_labels(row.labels):
            return False
        return not selector.fields or selector.matches_fields(getattr(self, state))


class _Watcher:
    """A watch. Changes are queued as they happen, unless too many are queued already."""

    def __init__(
        self, kind: ResourceKind, namespace: str | None, selector: Selector, reached: Version
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.selector = selector
        #: All changes up to this version have been delivered or do not concern this watcher.
        self.reached = reached
        #: Whether changes are added to *queued*; otherwise they are read from the cache.
        self.is_live = False
        self.queued: deque[Change] = deque()
        self._wake: asyncio.Future[None] | None = None

    def notify(self, cached: _CachedChange) -> None:
        if len(self.queued) >= _MAX_QUEUED:
            self.reached = self.queued[0].version - 1
            self.queued.clear()
            self.is_live = False
        elif cached.entry.version > self.reached and (change := cached.visible_to(self.selector)) is not None:
            self.queued.append(change)
            self.wake()

    def take(self) -> Change:
        change = self.queued.popleft()
        self.reached = change.version
        return change

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self, seconds: float | None) -> None:
        """Waits until a change is queued, or *seconds* have passed."""
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        # Cheaper than a timeout: thousands of watchers wait, and each change wakes all of them.
        timer = None if seconds is None else loop.call_later(seconds, self.wake)
        try:
            await self._wake
        finally:
            if timer is not None:
                timer.cancel()

    def visible(self, entry: Entry) -> Change | None:
        if entry.row.resource != self.kind.resource or self.namespace not in (None, entry.row.key[0]):
            return None
        return _CachedChange(entry).visible_to(self.selector)

    def bookmark(self, version: Version) -> Change:
        # A watch that started at a later version must not get an older one.
        version = max(version, self.reached)
        metadata = {"resourceVersion": str(version)}
        obj = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return Change(ChangeType.BOOKMARK, obj, version)


class _WatchTimer:
    """Times of a watch's bookmarks and its end."""

    def __init__(self, now: float, seconds: float | None, bookmark_every: float | None) -> None:
        self._end = now + seconds if seconds is not None else inf
        self._every = bookmark_every or inf
        self._due = now + self._every
        # So that the next watch starts where this one ended.
        self._last = self._end - _LAST_BOOKMARK_SECONDS
        if self._every == inf or self._last <= now:
            self._last = inf

    def is_expired(self, now: float) -> bool:
        return now >= self._end

    def bookmark_due(self, now: float) -> bool:
        """Whether a bookmark is due; then it counts as sent."""
        if now < self._due and now < self._last:
            return False
        self._due = now + self._every
        if now >= self._last:
            self._last = inf
        return True

    def seconds_until_next(self, now: float) -> float | None:
        """Returns seconds until the next bookmark or the end; None for never."""
        due = min(self._due, self._last, self._end)
        return None if due == inf else max(due - now, 0.0)


class WatchCache:
    """All changes after version *start*, within the limits."""

    def __init__(
        self,
        start: Version = 0,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
        bookmark_every: float = 60.0,
    ) -> None:
        #: All changes after this version are available.
        self.start = start
        #: The last change.
        self.version = max(start, INITIAL_VERSION)
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bookmark_every = bookmark_every
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        # Dicts instead of sets: their order is deterministic, so that runs can be repeated.
        self._watchers: dict[tuple[str, str | None], dict[_Watcher, None]] = {}
        self._closed_reason: str | None = None
        self._waiters: dict[asyncio.Future[None], Version] = {}

    def add(self, entry: Entry) -> None:
        """Adds a change and queues it for watchers, without waiting."""
        row = entry.row
        self._entries.append(entry)
        self._bytes += row.size
        self.version = row.version
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            evicted = self._entries.popleft()
            self._bytes -= evicted.row.size
            self.start = evicted.version
        if self._waiters:
            self._notify_waiters()
        if self._watchers and (watchers := self._live_watchers(row)):
            cached = _CachedChange(entry)
            for watcher in watchers:
                watcher.notify(cached)

    def _live_watchers(self, row: Row) -> list[_Watcher]:
        scopes = ((row.resource, None), (row.resource, row.key[0]))
        return [watcher for scope in scopes for watcher in self._watchers.get(scope, ()) if watcher.is_live]

    async def wait_for_version(self, version: Version) -> None:
        """Waits until that version has been added."""
        if self.version < version:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = version
            try:
                await waiter
            finally:
                del self._waiters[waiter]

    def _notify_waiters(self) -> None:
        for waiter, version in self._waiters.items():
            if self.version >= version and not waiter.done():
                waiter.set_result(None)

    def entries_since(self, version: Version) -> list[Entry] | None:
        """Returns all changes after *version* in order; None if some are not available or not yet."""
        if not self.start <= version <= self.version:
            return None
        first = bisect_right(self._entries, version, key=attrgetter("version"))
        return list(islice(self._entries, first, None))

    def close(self, reason: str) -> None:
        """Ends all watches: they deliver the changes so far and then raise Unavailable with *reason*."""
        self._closed_reason = reason
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.wake()

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None,
        selector: Selector,
        since: Version,
        *,
        bookmarks: bool,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        """Yields every matching change after *since*. Raises Expired if some are no longer available."""
        watcher = _Watcher(kind, namespace, selector, since)
        scope = (kind.resource, namespace)
        self._watchers.setdefault(scope, {})[watcher] = None
        clock = asyncio.get_running_loop().time
        timer = _WatchTimer(clock(), seconds, self._bookmark_every if bookmarks else None)
        try:
            while True:
                for change in self._missed_changes(watcher):
                    yield change
                # Nothing else runs from here to the first await, so no change can be missed.
                watcher.is_live = True
                while watcher.is_live:
                    if timer.is_expired(clock()):
                        return
                    if watcher.queued:
                        yield watcher.take()
                    elif self._closed_reason is not None:
                        raise Unavailable(self._closed_reason)
                    elif timer.bookmark_due(clock()):
                        yield watcher.bookmark(self.version)
                    else:
                        await watcher.wait(timer.seconds_until_next(clock()))
        finally:
            del self._watchers[scope][watcher]
            if not self._watchers[scope]:
                del self._watchers[scope]

    def _missed_changes(self, watcher: _Watcher) -> Iterator[Change]:
        """Yields changes that the watcher has not received, in chunks, while new ones may be added."""
        while entries := self._entries_after(watcher.reached):
            for entry in entries:
                watcher.reached = entry.version
                if (change := watcher.visible(entry)) is not None:
                    yield change

    def _entries_after(self, version: Version) -> list[Entry]:
        """Returns the next chunk of changes after *version*, in order."""
        if version < self.start:
            raise Expired(
                f"version {version} is too old: changes are known from version {self.start} on; list again"
            )
        first = bisect_right(self._entries, version, key=attrgetter("version"))
        return [self._entries[i] for i in range(first, min(first + _READ_CHUNK, len(self._entries)))]
