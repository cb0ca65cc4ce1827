"""
Informers: the current objects of a kind, reported to event handlers through interruptions of every sort.

One informer lists and watches a kind once for all its handlers, as a SharedInformer of client-go does. It stores only
versions: components keep what they need of the objects.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from launcher.core.errors import Expired, RequestError, TooManyRequests, Unavailable
from launcher.store import instrumentation
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import ChangeType, Key, Object, ResourceKind, Store, Version, key_of, version_of
from launcher.store.object_errors import object_errors
from launcher.store.selectors import EVERYTHING, Selector

log = logging.getLogger(__name__)

_PAGE_SIZE = 500
#: Handler calls for a list before the event loop runs other tasks.
_HANDLED_BATCH = 20


class EventHandler(Protocol):
    """Receives the changes of a kind."""

    def on_upsert(self, key: Key, obj: Object, /) -> None:
        """The object was added or updated."""

    def on_delete(self, key: Key, /) -> None:
        """The object was deleted."""


@dataclass(frozen=True, slots=True)
class EventHandlerFuncs:
    """An event handler made of two functions."""

    on_upsert: Callable[[Key, Object], None]
    on_delete: Callable[[Key], None]


@dataclass(slots=True)
class _Registration:
    """A handler of an informer. One with a selector is notified of a deletion when an object stops matching."""

    handler: EventHandler
    component: str
    selector: Selector
    matching: set[Key] = field(default_factory=set)

    def upsert(self, kind: ResourceKind, key: Key, obj: Object) -> None:
        if self.selector is not EVERYTHING:
            if not self.selector.matches(obj):
                self.delete(kind, key)
                return
            self.matching.add(key)
        with object_errors.handling(self.component, kind.plural, key):
            self.handler.on_upsert(key, obj)

    def delete(self, kind: ResourceKind, key: Key) -> None:
        if self.selector is not EVERYTHING:
            if key not in self.matching:
                return
            self.matching.remove(key)
        with object_errors.handling(self.component, kind.plural, key):
            self.handler.on_delete(key)


class Informer:
    """
    Reports every object of a kind to its handlers, each in its latest observed state.

    Versions of one object are reported in order; a skipped one was soon followed by a newer one. An error of a handler
    is recorded for its component and does not affect other handlers.
    """

    def __init__(
        self,
        store: Store,
        kind: ResourceKind,
        selector: Selector = EVERYTHING,
        *,
        namespace: str | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """
        Watches one *namespace*, or all.

        *jitter* returns numbers between 0 and 1, so that not all clients of a store reconnect at the same time.
        """
        self._store, self._kind, self._selector = store, kind, selector
        self._namespace = namespace
        self._jitter = jitter
        self._registrations: list[_Registration] = []
        self._is_started = False
        self._versions: dict[Key, Version] = {}
        #: All changes up to this version have been observed.
        self._version: Version = 0
        #: A watch from that version would have a gap.
        self._must_list = True
        #: None requests the whole list at once, which cannot expire between two pages.
        self._page_size: int | None = _PAGE_SIZE
        self._backoff = ExponentialBackoff(initial=0.2, maximum=30.0)
        #: Set after the first complete list.
        self.synced = asyncio.Event()

    def add_event_handler(
        self, handler: EventHandler, *, component: str = "informer", selector: Selector = EVERYTHING
    ) -> None:
        """
        Adds a handler, which is called for every object that matches *selector*. Its errors are those of *component*.

        Raises ValueError after the start: objects are not stored, so a late handler would miss some.
        """
        if self._is_started:
            raise ValueError(f"handlers of {self._kind.plural} must be added before the informer runs")
        self._registrations.append(_Registration(handler, component, selector))

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        self._is_started = True
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
                instrumentation.watch_restarted(self._kind.plural, "Ended")
            except Expired:
                instrumentation.watch_restarted(self._kind.plural, "Expired")
                log.info("version expired, listing again", extra={"kind": self._kind.plural})
                self._must_list = True
                await self._pause()
            except (RequestError, Unavailable) as error:
                # Permissions may be granted and a CRD installed later.
                log.warning("list or watch failed", extra={"kind": self._kind.plural, "error": str(error)})
                instrumentation.watch_restarted(self._kind.plural, type(error).__name__)
                await self._pause(error.retry_after if isinstance(error, TooManyRequests) else 0.0)

    def upsert(self, obj: Object) -> None:
        """Observes the result of the caller's own write at once, without waiting for the watch."""
        key = key_of(obj)
        if key not in self._versions and self._version >= version_of(obj):
            return  # the watch has reported it already, and its deletion
        self._observe(key, obj)

    def remove(self, key: Key, version: Version) -> None:
        """Observes that the object was deleted at *version*."""
        current = self._versions.get(key)
        if current is not None and current <= version:
            self._observe_deleted(key)

    async def _pause(self, minimum: float = 0.0) -> None:
        await asyncio.sleep(max(minimum, self._backoff.next_delay() * (1 + self._jitter()) / 2))

    async def _list(self) -> None:
        try:
            present, version = await self._list_pages()
        except Expired:
            self._page_size = None
            raise
        self._version, self._must_list, self._page_size = version, False, _PAGE_SIZE
        # Newer objects were written after the list, and a list may be an old one.
        deleted = [
            key for key, current in self._versions.items() if key not in present and current <= version
        ]
        for key in deleted:
            self._observe_deleted(key)
        self.synced.set()

    async def _list_pages(self) -> tuple[set[Key], Version]:
        """Returns the listed keys and the version of the list. Raises Expired if listing took too long."""
        present: set[Key] = set()
        continue_token = None
        while True:
            page = await self._store.list(
                self._kind,
                self._namespace,
                self._selector,
                limit=self._page_size,
                continue_token=continue_token,
            )
            await self._observe_all(page.items, present)
            continue_token = page.continue_token
            if continue_token is None:
                return present, page.version

    async def _observe_all(self, items: Sequence[Object], present: set[Key]) -> None:
        batch = max(1, _HANDLED_BATCH // max(1, len(self._registrations)))
        for count, item in enumerate(items, 1):
            key = key_of(item)
            present.add(key)
            self._observe(key, item)
            if count % batch == 0:
                # A long list must not delay other tasks, above all API requests.
                await asyncio.sleep(0)

    async def _watch(self) -> None:
        """Observes the changes of one watch until it ends. Waits before the next one if there were none."""
        changes = self._store.watch(
            self._kind, self._namespace, self._selector, since=self._version, bookmarks=True
        )
        empty = True
        async for change in changes:
            empty = False
            self._backoff.reset()
            if change.type is ChangeType.DELETED:
                self.remove(key_of(change.object), change.version)
            elif change.type is not ChangeType.BOOKMARK:
                self._observe(key_of(change.object), change.object)
            self._version = max(self._version, change.version)
        if empty:
            await self._pause()

    def _observe(self, key: Key, obj: Object) -> None:
        version = version_of(obj)
        if version > self._versions.get(key, 0):
            self._versions[key] = version
            for registration in self._registrations:
                registration.upsert(self._kind, key, obj)

    def _observe_deleted(self, key: Key) -> None:
        del self._versions[key]
        for registration in self._registrations:
            registration.delete(self._kind, key)


class SharedInformers:
    """
    The informers of a store, shared by its components: one per kind.

    With *select_on_server* there is one per kind and selector instead, so that a cluster sends only what is needed.
    """

    def __init__(
        self,
        store: Store,
        *,
        jitter: Callable[[], float] = random.random,
        select_on_server: bool = False,
    ) -> None:
        self._store, self._jitter, self._select_on_server = store, jitter, select_on_server
        self._informers: dict[tuple[ResourceKind, Selector], Informer] = {}

    def add_event_handler(
        self, kind: ResourceKind, handler: EventHandler, *, component: str, selector: Selector = EVERYTHING
    ) -> Informer:
        """Adds a handler for objects that match *selector*, and returns its informer, which ``run`` will run."""
        on_server = selector if self._select_on_server else EVERYTHING
        informer = self._informers.get((kind, on_server))
        if informer is None:
            informer = Informer(self._store, kind, on_server, jitter=self._jitter)
            self._informers[kind, on_server] = informer
        informer.add_event_handler(
            handler, component=component, selector=EVERYTHING if self._select_on_server else selector
        )
        return informer

    async def run(self) -> None:
        """
        Runs all informers until cancelled.

        Each starts when those added before it are synced: a component that adds pods first has all pods when it
        receives the first Framework.
        """
        async with asyncio.TaskGroup() as group:
            for informer in list(self._informers.values()):
                group.create_task(informer.run())
                await informer.synced.wait()
