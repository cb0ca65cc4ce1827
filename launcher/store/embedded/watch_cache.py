"""The latest changes, and those who follow them."""

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

#: Some minutes of a busy store; a follower who is further behind lists again.
MOST_ENTRIES = 20_000
MOST_BYTES = 64 * 1024 * 1024
#: Changes that may wait for one follower as values; beyond that it reads them from the history, at its own pace.
_MOST_WAITING = 1_000
_CHUNK = 256
#: Seconds before its end at which a follower gets a last bookmark.
_LAST_BOOKMARK = 2.0
#: The version of a store in which nothing has happened. Not 0, which for clients means any version.
EMPTY = 1


class _CachedChange:
    """An entry, read at most once for all who are told of it."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    @cached_property
    def now(self) -> Object:
        return self.entry.row.object()

    @cached_property
    def before(self) -> Object:
        """The object as it was, with the version of the change."""
        assert self.entry.before is not None
        return self.entry.before.object(self.entry.version)

    def seen(self, where: Selector) -> Change | None:
        """The change as it looks to somebody who sees only what matches; None when there is nothing to see."""
        entry = self.entry
        if not where.labels and not where.fields:
            return Change(entry.happened, self.now, entry.version)
        stays = entry.happened is not ChangeType.DELETED
        was = entry.before is not None and self._matches(where, entry.before, "before")
        matches = (stays or was) and self._matches(where, entry.row, "now")
        if matches and stays:
            return Change(ChangeType.MODIFIED if was else ChangeType.ADDED, self.now, entry.version)
        if was:
            return Change(ChangeType.DELETED, self.now if matches else self.before, entry.version)
        return None

    def _matches(self, where: Selector, row: Row, side: str) -> bool:
        if not where.matches_labels(row.labels):
            return False
        return not where.fields or where.matches_fields(getattr(self, side))


class _Watcher:
    """Somebody who is told of changes as they happen, unless too many wait for them already."""

    def __init__(self, kind: ResourceKind, namespace: str | None, where: Selector, reached: Version) -> None:
        self.kind = kind
        self.namespace = namespace
        self.where = where
        #: All changes up to this one have been passed on, or were nothing to see here.
        self.reached = reached
        #: Whether changes are put into *waiting* as they happen; else they are read from the history.
        self.live = False
        self.waiting: deque[Change] = deque()
        self._wake: asyncio.Future[None] | None = None

    def tell(self, told: _CachedChange) -> None:
        if len(self.waiting) >= _MOST_WAITING:
            self.reached = self.waiting[0].version - 1
            self.waiting.clear()
            self.live = False
        elif told.entry.version > self.reached and (change := told.seen(self.where)) is not None:
            self.waiting.append(change)
            self.wake()

    def take(self) -> Change:
        change = self.waiting.popleft()
        self.reached = change.version
        return change

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self, seconds: float | None) -> None:
        """Return when something waits, or after so many seconds."""
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        # Cheaper than a timeout: thousands wait like this, and each change wakes them all.
        timer = None if seconds is None else loop.call_later(seconds, self.wake)
        try:
            await self._wake
        finally:
            if timer is not None:
                timer.cancel()

    def sees(self, entry: Entry) -> Change | None:
        if entry.row.resource != self.kind.resource or self.namespace not in (None, entry.row.key[0]):
            return None
        return _CachedChange(entry).seen(self.where)

    def bookmark(self, version: Version) -> Change:
        # Whoever began ahead of us has been promised nothing older.
        version = max(version, self.reached)
        metadata = {"resourceVersion": str(version)}
        obj = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return Change(ChangeType.BOOKMARK, obj, version)


class _Times:
    """When a follower is due a bookmark, and when it has to go."""

    def __init__(self, now: float, seconds: float | None, bookmark_every: float | None) -> None:
        self._end = now + seconds if seconds is not None else inf
        self._every = bookmark_every or inf
        self._due = now + self._every
        # So that whoever comes back begins where this one ended.
        self._last = self._end - _LAST_BOOKMARK
        if self._every == inf or self._last <= now:
            self._last = inf

    def over(self, now: float) -> bool:
        return now >= self._end

    def bookmark_due(self, now: float) -> bool:
        """Whether there is one due; then it counts as given."""
        if now < self._due and now < self._last:
            return False
        self._due = now + self._every
        if now >= self._last:
            self._last = inf
        return True

    def pause(self, now: float) -> float | None:
        """Seconds until the next thing to do; None for never."""
        moment = min(self._due, self._last, self._end)
        return None if moment == inf else max(moment - now, 0.0)


class WatchCache:
    """Every change after version *start*, as far back as the bounds allow."""

    def __init__(
        self,
        start: Version = 0,
        *,
        most_entries: int = MOST_ENTRIES,
        most_bytes: int = MOST_BYTES,
        bookmark_every: float = 60.0,
    ) -> None:
        #: All changes after this one are known.
        self.start = start
        #: The last change.
        self.version = max(start, EMPTY)
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._bookmark_every = bookmark_every
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        # Dicts for sets: they keep their order, so that a run can be repeated exactly.
        self._followers: dict[tuple[str, str | None], dict[_Watcher, None]] = {}
        self._ended: str | None = None
        self._awaited: dict[asyncio.Future[None], Version] = {}

    def add(self, entry: Entry) -> None:
        """Remember the change, and tell those who follow; nobody is waited for."""
        row = entry.row
        self._entries.append(entry)
        self._bytes += row.size
        self.version = row.version
        while len(self._entries) > self._most_entries or self._bytes > self._most_bytes:
            forgotten = self._entries.popleft()
            self._bytes -= forgotten.row.size
            self.start = forgotten.version
        if self._awaited:
            self._tell_reached()
        if self._followers and (followers := self._following(row)):
            told = _CachedChange(entry)
            for follower in followers:
                follower.tell(told)

    def _following(self, row: Row) -> list[_Watcher]:
        places = ((row.resource, None), (row.resource, row.key[0]))
        return [follower for place in places for follower in self._followers.get(place, ()) if follower.live]

    async def reached(self, version: Version) -> None:
        """Return when that version has been added."""
        if self.version < version:
            reached = asyncio.get_running_loop().create_future()
            self._awaited[reached] = version
            try:
                await reached
            finally:
                del self._awaited[reached]

    def _tell_reached(self) -> None:
        for reached, version in self._awaited.items():
            if self.version >= version and not reached.done():
                reached.set_result(None)

    def since(self, version: Version) -> list[Entry] | None:
        """Every change after *version*, the first of them first; None when some are not known, or not yet."""
        if not self.start <= version <= self.version:
            return None
        first = bisect_right(self._entries, version, key=attrgetter("version"))
        return list(islice(self._entries, first, None))

    def end(self, why: str) -> None:
        """Every follower hears what has happened so far, then Unavailable with *why*."""
        self._ended = why
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()

    async def follow(
        self,
        kind: ResourceKind,
        namespace: str | None,
        where: Selector,
        since: Version,
        *,
        bookmarks: bool,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        """Every change after *since* that can be seen there. Raises Expired when some are forgotten."""
        follower = _Watcher(kind, namespace, where, since)
        place = (kind.resource, namespace)
        self._followers.setdefault(place, {})[follower] = None
        clock = asyncio.get_running_loop().time
        times = _Times(clock(), seconds, self._bookmark_every if bookmarks else None)
        try:
            while True:
                for change in self._missed(follower):
                    yield change
                # From here to the first wait nothing else runs, so nothing can happen unseen.
                follower.live = True
                while follower.live:
                    if times.over(clock()):
                        return
                    if follower.waiting:
                        yield follower.take()
                    elif self._ended is not None:
                        raise Unavailable(self._ended)
                    elif times.bookmark_due(clock()):
                        yield follower.bookmark(self.version)
                    else:
                        await follower.wait(times.pause(clock()))
        finally:
            del self._followers[place][follower]
            if not self._followers[place]:
                del self._followers[place]

    def _missed(self, follower: _Watcher) -> Iterator[Change]:
        """What the follower has not heard yet, read bit by bit while the history goes on."""
        while entries := self._after(follower.reached):
            for entry in entries:
                follower.reached = entry.version
                if (change := follower.sees(entry)) is not None:
                    yield change

    def _after(self, version: Version) -> list[Entry]:
        """Some of the changes after *version*, the first of them first."""
        if version < self.start:
            raise Expired(
                f"version {version} is too old: changes are known from version {self.start} on; list again"
            )
        first = bisect_right(self._entries, version, key=attrgetter("version"))
        return [self._entries[i] for i in range(first, min(first + _CHUNK, len(self._entries)))]
