"""The latest changes, and those who follow them."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from functools import cached_property
from operator import attrgetter

from launcher.core.errors import Expired, Unavailable
from launcher.store.port import Change, Happened, Kind, Object, Version
from launcher.store.rows import Entry, Row
from launcher.store.selectors import Where

#: Some minutes of a busy store; a follower who is further behind lists again.
MOST_ENTRIES = 20_000
MOST_BYTES = 64 * 1024 * 1024
#: Changes that may wait for one follower as values; beyond that it reads them from the history, at its own pace.
_MOST_WAITING = 1_000
_CHUNK = 256


class _Told:
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

    def seen(self, where: Where) -> Change | None:
        """The change as it looks to somebody who sees only what matches; None when there is nothing to see."""
        entry = self.entry
        if not where.labels and not where.fields:
            return Change(entry.happened, self.now, entry.version)
        stays = entry.happened is not Happened.DELETED
        was = entry.before is not None and self._matches(where, entry.before, "before")
        matches = (stays or was) and self._matches(where, entry.row, "now")
        if matches and stays:
            return Change(Happened.MODIFIED if was else Happened.ADDED, self.now, entry.version)
        if was:
            return Change(Happened.DELETED, self.now if matches else self.before, entry.version)
        return None

    def _matches(self, where: Where, row: Row, side: str) -> bool:
        if not where.matches_labels(row.labels):
            return False
        return not where.fields or where.matches_fields(getattr(self, side))


class _Follower:
    """Somebody who is told of changes as they happen, unless too many wait for them already."""

    def __init__(self, kind: Kind, namespace: str | None, where: Where, reached: Version) -> None:
        self.kind = kind
        self.namespace = namespace
        self.where = where
        #: All changes up to this one have been passed on, or were nothing to see here.
        self.reached = reached
        #: Whether changes are put into *waiting* as they happen; else they are read from the history.
        self.live = False
        self.waiting: deque[Change] = deque()
        self._wake: asyncio.Future[None] | None = None

    def tell(self, told: _Told) -> None:
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
        self._wake = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._wake,), timeout=seconds)

    def sees(self, entry: Entry) -> Change | None:
        if entry.row.resource != self.kind.resource or self.namespace not in (None, entry.row.key[0]):
            return None
        return _Told(entry).seen(self.where)

    def bookmark(self, version: Version) -> Change:
        metadata = {"resourceVersion": str(version)}
        obj = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return Change(Happened.BOOKMARK, obj, version)


class History:
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
        self.version = start
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._bookmark_every = bookmark_every
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        # Dicts for sets: they keep their order, so that a run can be repeated exactly.
        self._followers: dict[tuple[str, str | None], dict[_Follower, None]] = {}
        self._ended: str | None = None

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
        if self._followers and (followers := self._following(row)):
            told = _Told(entry)
            for follower in followers:
                follower.tell(told)

    def _following(self, row: Row) -> list[_Follower]:
        places = ((row.resource, None), (row.resource, row.key[0]))
        return [follower for place in places for follower in self._followers.get(place, ()) if follower.live]

    def end(self, why: str) -> None:
        """Every follower hears what has happened so far, then Unavailable with *why*."""
        self._ended = why
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()

    async def follow(
        self, kind: Kind, namespace: str | None, where: Where, since: Version, *, bookmarks: bool
    ) -> AsyncGenerator[Change, None]:
        """Every change after *since* that can be seen there. Raises Expired when some are forgotten."""
        follower = _Follower(kind, namespace, where, since)
        place = (kind.resource, namespace)
        self._followers.setdefault(place, {})[follower] = None
        clock = asyncio.get_running_loop().time
        due = clock() + self._bookmark_every
        try:
            while True:
                for change in self._missed(follower):
                    yield change
                # From here to the first wait nothing else runs, so nothing can happen unseen.
                follower.live = True
                while follower.live:
                    if follower.waiting:
                        yield follower.take()
                    elif self._ended is not None:
                        raise Unavailable(self._ended)
                    elif bookmarks and clock() >= due:
                        due = clock() + self._bookmark_every
                        yield follower.bookmark(self.version)
                    else:
                        await follower.wait(due - clock() if bookmarks else None)
        finally:
            del self._followers[place][follower]
            if not self._followers[place]:
                del self._followers[place]

    def _missed(self, follower: _Follower) -> Iterator[Change]:
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
