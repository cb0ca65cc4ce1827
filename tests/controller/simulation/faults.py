"""What can go wrong between the launcher and its store, and the store as the launcher then sees it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from launcher.core.errors import Conflict, Expired, Forbidden, OutcomeUnknown, TooManyRequests, Unavailable
from launcher.store.interface import (
    EVENTS,
    PODS,
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
from tests.controller.simulation.cluster import SimulatedStore

T = TypeVar("T")


@dataclass
class Faults:
    """How likely each thing goes wrong, per call or event; all of it ends when ``over`` is set."""

    lost_answers: float = 0.0
    refusals: float = 0.0
    late_answers: float = 0.0
    late_events: float = 0.0
    doubled_events: float = 0.0
    cut_streams: float = 0.0
    expired: float = 0.0
    stale_lists: float = 0.0
    slow: float = 0.0
    over: bool = False
    #: Lists as they once were, for whoever gets a stale one, a launcher that has just started included.
    old_pages: dict[tuple[ResourceKind, Selector], Page] = field(default_factory=dict)

    def strikes(self, kind: str, random: Random) -> bool:
        """Whether this kind of fault happens now."""
        likely: float = getattr(self, kind)
        return not self.over and likely > 0 and random.random() < likely


class FaultyStore:
    """The store through a bad connection. A call once sent takes effect even if its caller dies."""

    def __init__(self, store: SimulatedStore, faults: Faults, random: Random) -> None:
        self._store, self._faults, self._random = store, faults, random
        self._under_way: set[asyncio.Task[Any]] = set()

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(lambda: self._store.create(kind, obj, dry_run=dry_run), kind, creates=True)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(lambda: self._store.update(kind, obj, dry_run=dry_run), kind)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        return await self._write(lambda: self._store.update_status(kind, obj, dry_run=dry_run), kind)

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
        call = self._store.patch
        return await self._write(
            lambda: call(kind, namespace, name, patch, subresource=subresource, dry_run=dry_run), kind
        )

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        return await self._write(
            lambda: self._store.delete(kind, namespace, name, how, dry_run=dry_run), kind
        )

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        await self._pause()
        if self._faults.strikes("refusals", self._random):
            raise Unavailable("simulated: 500")
        return await self._store.get(kind, namespace, name)

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        await self._pause()
        if self._faults.strikes("refusals", self._random):
            raise Unavailable("simulated: 500")
        old = self._faults.old_pages.get((kind, where))
        # Only lists of everything come stale: the informers', which a cache may answer. A list by name is a live one.
        if namespace is None and old is not None and self._faults.strikes("stale_lists", self._random):
            return old
        page = await self._store.list(kind, namespace, where, limit=limit, token=token)
        if token is None and page.continue_token is None:
            self._faults.old_pages[kind, where] = page
        return page

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        faults, random = self._faults, self._random
        if faults.strikes("expired", random):
            raise Expired("simulated: too old")
        async for change in self._store.watch(kind, namespace, where, since=since, bookmarks=bookmarks):
            if faults.strikes("cut_streams", random):
                return
            if faults.strikes("late_events", random):
                await asyncio.sleep(random.expovariate(1 / 3))
            yield change
            if faults.strikes("doubled_events", random):
                yield change

    async def _write(
        self, call: Callable[[], Awaitable[T]], kind: ResourceKind, *, creates: bool = False
    ) -> T:
        await self._pause()
        if self._faults.strikes("refusals", self._random):
            raise self._refusal(kind, creates)
        task = asyncio.ensure_future(self._send(call))
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        answer = await asyncio.shield(task)
        if self._faults.strikes("late_answers", self._random):
            await asyncio.sleep(self._random.expovariate(1 / 4))
        if kind is not EVENTS and self._faults.strikes("lost_answers", self._random):
            raise OutcomeUnknown("simulated: connection lost")
        return answer

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be dead

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T:
        """On its way to the store: slow at times, and not to be called back."""
        if self._faults.strikes("slow", self._random):
            await asyncio.sleep(self._random.expovariate(1 / 2))
        return await call()

    def _refusal(self, kind: ResourceKind, creates: bool) -> Exception:
        if creates and kind is PODS and self._random.random() < 0.3:
            return Forbidden("simulated: exceeded quota: pods")
        refusals = (
            Conflict("simulated: 409"),
            TooManyRequests("simulated: 429"),
            Unavailable("simulated: 500"),
        )
        return refusals[1 + self._random.randrange(2)] if creates else self._random.choice(refusals)

    async def _pause(self) -> None:
        """Every call gives others a turn, so that the launcher can die at any await."""
        await asyncio.sleep(
            0.001 if not self._faults.strikes("slow", self._random) else self._random.random()
        )
