"""A store with injected faults: lost and late responses, errors, stale lists, interrupted watches."""

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
    """The probability of each fault, per call or event."""

    lost_responses: float = 0.0
    error_responses: float = 0.0
    late_responses: float = 0.0
    late_events: float = 0.0
    duplicate_events: float = 0.0
    closed_watches: float = 0.0
    expired: float = 0.0
    stale_lists: float = 0.0
    slow: float = 0.0
    #: Of the log archive, and of requests for logs.
    archive_errors: float = 0.0
    archive_hangs: float = 0.0
    archive_slow: float = 0.0
    archive_lost_responses: float = 0.0
    log_errors: float = 0.0
    disabled: bool = False
    #: Earlier lists, which a stale list returns, also after a restart of the controller.
    old_pages: dict[tuple[ResourceKind, Selector], Page] = field(default_factory=dict)

    @property
    def archive_fails(self) -> bool:
        """Whether the log archive, or requests for logs, may fail."""
        return any(
            (
                self.archive_errors,
                self.archive_hangs,
                self.archive_slow,
                self.archive_lost_responses,
                self.log_errors,
            )
        )

    def occurs(self, fault: str, random: Random) -> bool:
        """Whether the fault occurs in this call."""
        probability: float = getattr(self, fault)
        return not self.disabled and probability > 0 and random.random() < probability


class FaultyStore:
    """Forwards to *store* with faults. A call that was sent takes effect even if its caller is cancelled."""

    def __init__(self, store: SimulatedStore, faults: Faults, random: Random) -> None:
        self._store, self._faults, self._random = store, faults, random
        self._in_flight: set[asyncio.Task[Any]] = set()

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
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        return await self._write(
            lambda: self._store.delete(kind, namespace, name, options, dry_run=dry_run), kind
        )

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        await self._pause()
        if self._faults.occurs("error_responses", self._random):
            raise Unavailable("simulated: 500")
        return await self._respond(await self._store.get(kind, namespace, name))

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Page:
        await self._pause()
        if self._faults.occurs("error_responses", self._random):
            raise Unavailable("simulated: 500")
        old = self._faults.old_pages.get((kind, selector))
        # Only lists of all namespaces are stale: those of informers, which an API server may serve from its cache.
        if namespace is None and old is not None and self._faults.occurs("stale_lists", self._random):
            return old
        page = await self._store.list(kind, namespace, selector, limit=limit, continue_token=continue_token)
        if continue_token is None and page.continue_token is None:
            self._faults.old_pages[kind, selector] = page
        return await self._respond(page)

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        faults, random = self._faults, self._random
        if faults.occurs("expired", random):
            raise Expired("simulated: too old")
        async for change in self._store.watch(kind, namespace, selector, since=since, bookmarks=bookmarks):
            if faults.occurs("closed_watches", random):
                return
            if faults.occurs("late_events", random):
                await asyncio.sleep(random.expovariate(1 / 3))
            yield change
            if faults.occurs("duplicate_events", random):
                yield change

    async def _write(
        self, call: Callable[[], Awaitable[T]], kind: ResourceKind, *, creates: bool = False
    ) -> T:
        await self._pause()
        if self._faults.occurs("error_responses", self._random):
            raise self._error_response(kind, creates)
        task = asyncio.ensure_future(self._send(call))
        self._in_flight.add(task)
        task.add_done_callback(self._retrieve_exception)
        response = await self._respond(await asyncio.shield(task))
        if kind is not EVENTS and self._faults.occurs("lost_responses", self._random):
            raise OutcomeUnknown("simulated: connection lost")
        return response

    async def _respond(self, response: T) -> T:
        """Returns the response, sometimes with a delay."""
        if self._faults.occurs("late_responses", self._random):
            await asyncio.sleep(self._random.expovariate(1 / 4))
        return response

    def _retrieve_exception(self, task: "asyncio.Task[Any]") -> None:
        self._in_flight.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have been cancelled

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T:
        """Sends the call to the store, sometimes with a delay."""
        if self._faults.occurs("slow", self._random):
            await asyncio.sleep(self._random.expovariate(1 / 2))
        return await call()

    def _error_response(self, kind: ResourceKind, creates: bool) -> Exception:
        if creates and kind is PODS and self._random.random() < 0.3:
            return Forbidden("simulated: exceeded quota: pods")
        errors = (
            Conflict("simulated: 409"),
            TooManyRequests("simulated: 429"),
            Unavailable("simulated: 500"),
        )
        return errors[1 + self._random.randrange(2)] if creates else self._random.choice(errors)

    async def _pause(self) -> None:
        """Yields to the event loop in every call, so that the controller can be cancelled at any await."""
        await asyncio.sleep(0.001 if not self._faults.occurs("slow", self._random) else self._random.random())
