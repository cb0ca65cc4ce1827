"""A mirror of one kind of object, kept true by a list and a watch, through every kind of interruption."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from launcher.core.errors import Expired, RequestError, TooManyRequests, Unavailable
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import ChangeType, Key, Object, ResourceKind, Store, Version, key_of, version_of
from launcher.store.object_errors import object_errors
from launcher.store.selectors import EVERYTHING, Selector

log = logging.getLogger(__name__)

_PAGE = 500
#: Objects of a list that are told before others get their turn.
_AT_ONCE = 20


class EventHandler(Protocol):
    """Who wants to know."""

    def on_upsert(self, key: Key, obj: Object, /) -> None:
        """The object is there, and new or changed."""

    def on_delete(self, key: Key, /) -> None:
        """The object is no longer there."""


@dataclass(frozen=True, slots=True)
class EventHandlerFuncs:
    """A handler out of two functions, for who hears of several kinds."""

    on_upsert: Callable[[Key, Object], None]
    on_delete: Callable[[Key], None]


class Informer:
    """
    Tells a handler of every object, each in its newest known state.

    Versions of one object are told in order; one that is skipped was soon followed by a newer one.
    """

    def __init__(
        self,
        store: Store,
        kind: ResourceKind,
        handler: EventHandler,
        where: Selector = EVERYTHING,
        *,
        namespace: str | None = None,
        chance: Callable[[], float] = random.random,
        component: str = "informer",
    ) -> None:
        """
        Of one *namespace*, or of all. Errors of the handler are reported as those of *component*.

        *chance* gives numbers from 0 to 1: not all who wait for the same store come back at the same time.
        """
        self._store, self._kind, self._where, self._handler = store, kind, where, handler
        self._namespace, self._component = namespace, component
        self._chance = chance
        self._versions: dict[Key, Version] = {}
        #: Everything up to here has been heard of.
        self._reached: Version = 0
        #: A watch from there would have a gap.
        self._must_list = True
        #: None asks for everything at once, which cannot become too old half-way.
        self._page: int | None = _PAGE
        self._pauses = ExponentialBackoff(first=0.2, most=30.0)
        #: Set once the first list is through.
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Keep the mirror true until cancelled."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except Expired:
                log.info("version expired, listing again", extra={"kind": self._kind.plural})
                self._must_list = True
                await self._pause()
            except (RequestError, Unavailable) as error:
                # Rights may be given later, and a kind defined; nobody gains by our giving up.
                log.warning(
                    "cannot be listed or watched", extra={"kind": self._kind.plural, "why": str(error)}
                )
                await self._pause(error.retry_after if isinstance(error, TooManyRequests) else 0.0)

    def upsert(self, obj: Object) -> None:
        """A write of ours was answered with *obj*: known at once, without waiting for the watch."""
        key = key_of(obj)
        if key not in self._versions and self._reached >= version_of(obj):
            return  # the watch has told of it already, and of its end
        self._see(key, obj)

    def remove(self, key: Key, version: Version) -> None:
        """The store said that the object of that *version*, or an older one, is no longer there."""
        known = self._versions.get(key)
        if known is not None and known <= version:
            self._lose(key)

    async def _pause(self, least: float = 0.0) -> None:
        await asyncio.sleep(max(least, self._pauses.next_delay() * (1 + self._chance()) / 2))

    async def _list(self) -> None:
        try:
            there, version = await self._list_pages()
        except Expired:
            self._page = None
            raise
        self._reached, self._must_list, self._page = version, False, _PAGE
        # What is newer than the list was written after it, and a list may be an old one.
        missing = [key for key, known in self._versions.items() if key not in there and known <= version]
        for key in missing:
            self._lose(key)
        self.synced.set()

    async def _list_pages(self) -> tuple[set[Key], Version]:
        """What is there, and as of when. Raises Expired when the pages took too long."""
        there: set[Key] = set()
        token = None
        while True:
            page = await self._store.list(
                self._kind, self._namespace, self._where, limit=self._page, token=token
            )
            await self._see_all(page.items, there)
            token = page.continue_token
            if token is None:
                return there, page.version

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
        changes = self._store.watch(
            self._kind, self._namespace, self._where, since=self._reached, bookmarks=True
        )
        silent = True
        async for change in changes:
            silent = False
            self._pauses.reset()
            if change.happened is ChangeType.DELETED:
                self.remove(key_of(change.object), change.version)
            elif change.happened is not ChangeType.BOOKMARK:
                self._see(key_of(change.object), change.object)
            self._reached = max(self._reached, change.version)
        if silent:
            await self._pause()

    def _see(self, key: Key, obj: Object) -> None:
        version = version_of(obj)
        if version > self._versions.get(key, 0):
            self._versions[key] = version
            with object_errors.handling(self._component, self._kind.plural, key):
                self._handler.on_upsert(key, obj)

    def _lose(self, key: Key) -> None:
        del self._versions[key]
        with object_errors.handling(self._component, self._kind.plural, key):
            self._handler.on_delete(key)
