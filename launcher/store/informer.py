"""A mirror of one kind of object, kept true by a list and a watch, through every kind of interruption."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from launcher.core.errors import Expired, Unavailable
from launcher.store.pauses import Pauses
from launcher.store.port import Happened, Key, Kind, Object, Store, Version, key_of, version_of
from launcher.store.selectors import EVERYTHING, Where

log = logging.getLogger(__name__)

_PAGE = 500
#: Objects of a list that are told before others get their turn.
_AT_ONCE = 20


class Handler(Protocol):
    """Who wants to know."""

    def seen(self, key: Key, obj: Object) -> None:
        """The object is there, and new or changed."""

    def gone(self, key: Key) -> None:
        """The object is no longer there."""


class Informer:
    """
    Tells a handler of every object, each in its newest known state.

    Versions of one object are told in order; one that is skipped was soon followed by a newer one.
    """

    def __init__(self, store: Store, kind: Kind, handler: Handler, where: Where = EVERYTHING) -> None:
        self._store, self._kind, self._where, self._handler = store, kind, where, handler
        self._versions: dict[Key, Version] = {}
        #: Everything up to here has been heard of.
        self._reached: Version = 0
        self._pauses = Pauses(first=0.2, most=30.0)
        #: Set once the first list is through.
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Keep the mirror true until cancelled."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch()
            except Expired:
                log.info("watch expired, listing again", extra={"kind": self._kind.plural})
                await asyncio.sleep(self._pauses.next())
            except Unavailable as error:
                log.warning("store unavailable", extra={"kind": self._kind.plural, "why": str(error)})
                await asyncio.sleep(self._pauses.next())

    def wrote(self, obj: Object) -> None:
        """A write of ours was answered with *obj*: known at once, without waiting for the watch."""
        key = key_of(obj)
        if key not in self._versions and self._reached >= version_of(obj):
            return  # the watch has told of it already, and of its end
        self._see(key, obj)

    def removed(self, key: Key, version: Version) -> None:
        """The store said that the object of that *version*, or an older one, is no longer there."""
        known = self._versions.get(key)
        if known is not None and known <= version:
            self._lose(key)

    async def _list(self) -> None:
        there: set[Key] = set()
        page = await self._store.list(self._kind, where=self._where, limit=_PAGE)
        await self._see_all(page.items, there)
        while page.token is not None:
            page = await self._store.list(self._kind, where=self._where, limit=_PAGE, token=page.token)
            await self._see_all(page.items, there)
        self._reached = page.version
        # What is newer than the list was written after it, and a list may be an old one.
        missing = [key for key, known in self._versions.items() if key not in there and known <= page.version]
        for key in missing:
            self._lose(key)
        self.synced.set()

    async def _see_all(self, items: Sequence[Object], there: set[Key]) -> None:
        for number, item in enumerate(items, 1):
            key = key_of(item)
            there.add(key)
            self._see(key, item)
            if number % _AT_ONCE == 0:
                # A long list keeps nobody else waiting, least of all those who call the API.
                await asyncio.sleep(0)

    async def _watch(self) -> None:
        """One stream of changes, to its end. A stream that ends without a word is not asked for again at once."""
        changes = self._store.watch(self._kind, where=self._where, since=self._reached, bookmarks=True)
        silent = True
        async for change in changes:
            silent = False
            self._pauses.reset()
            if change.happened is Happened.DELETED:
                self.removed(key_of(change.object), change.version)
            elif change.happened is not Happened.BOOKMARK:
                self._see(key_of(change.object), change.object)
            self._reached = max(self._reached, change.version)
        if silent:
            await asyncio.sleep(self._pauses.next())

    def _see(self, key: Key, obj: Object) -> None:
        version = version_of(obj)
        if version > self._versions.get(key, 0):
            self._versions[key] = version
            try:
                self._handler.seen(key, obj)
            except Exception:  # whatever is wrong with one object, the others go on
                log.exception("object cannot be read", extra={"kind": self._kind.plural, "object": key})

    def _lose(self, key: Key) -> None:
        del self._versions[key]
        self._handler.gone(key)
