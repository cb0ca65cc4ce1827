"""
One leader among several launchers, by a Lease that all of them can see.

Nobody believes another machine's clock: a lease has run out when it has not changed for its whole length under one's
own eyes. The leader counts from before it asked for more time, and stops while there is some left, so the two never
overlap. What it had sent by then has those last seconds to arrive, or its precondition fails.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from launcher.core.errors import LauncherError, NotFound
from launcher.core.replicas import as_int
from launcher.core.validation.pod_template import as_object
from launcher.store.fenced_store import LeaderTerm
from launcher.store.interface import LEASES, Object, Store


def new_lease(namespace: str, name: str) -> Object:
    """A lease that nobody holds."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


def holder_of(lease: Object) -> str:
    """Who holds the lease; empty when nobody does."""
    return str(_spec(lease).get("holderIdentity") or "")


def seconds_of(lease: Object, default: float) -> float:
    """For how long the holder's word counts: the holder says so itself, since it gives up by its own settings."""
    seconds = _spec(lease).get("leaseDurationSeconds") or default
    return seconds if isinstance(seconds, int | float) else default


def held(lease: Object, identity: str, seconds: float, now: float) -> Object:
    """The lease in the hands of *identity*, from now on or still."""
    before = _spec(lease)
    mine = before.get("holderIdentity") == identity
    began = before.get("acquireTime") if mine else None
    changes = as_int(before.get("leaseTransitions"))
    first = not before.get("acquireTime")
    return lease | {
        "spec": before
        | {
            "holderIdentity": identity,
            "leaseDurationSeconds": max(1, math.ceil(seconds)),
            "acquireTime": began or _spelt(now),
            "renewTime": _spelt(now),
            "leaseTransitions": changes if mine or first else changes + 1,
        }
    }


def given_back(lease: Object, now: float) -> Object:
    """The lease without a holder, for anybody to take at once."""
    # A second is the least that Kubernetes allows, and whoever comes does not wait for an empty name.
    return lease | {
        "spec": _spec(lease) | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _spelt(now)}
    }


def _spec(lease: Object) -> Object:
    return as_object(lease.get("spec"))


def _spelt(now: float) -> str:
    """``2026-01-31T12:00:00.000000Z``: Kubernetes reads these times in no other spelling."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


log = logging.getLogger(__name__)

NAME = "framework-launcher"


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """How long things take, in seconds."""

    #: Others wait for so long after the last sign of life.
    lease: float = 15.0
    #: The leader stops working so long after the last sign of life that got through.
    renew: float = 10.0
    #: Between two tries to get or to keep the lease.
    retry: float = 2.0


class Worker(Protocol):
    """What the leader does."""

    async def run(self) -> None:
        """Work until ``stop``, then bring it to a good end; end at once when cancelled."""

    def stop(self) -> None:
        """Take nothing more on."""


def boot_clock() -> float:
    """Seconds on a clock that nobody can set, and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaderElector:
    """
    Waits for the lease, and works while it has it.

    The store should have a connection to spare: a lease that cannot be renewed in time because of other calls is lost.
    """

    def __init__(
        self,
        store: Store,
        *,
        namespace: str,
        identity: str,
        clock: Callable[[], float],
        chance: Callable[[], float],
        name: str = NAME,
        durations: LeaseTimings | None = None,
        steady: Callable[[], float] = boot_clock,
    ) -> None:
        """*identity* is this process's alone, never that of an earlier one."""
        self._store, self._namespace, self._name = store, namespace, name
        self._identity, self._clock, self._chance, self._steady = identity, clock, chance, steady
        self._durations = durations or LeaseTimings()
        self._stopping = asyncio.Event()
        self._term: LeaderTerm | None = None
        #: The lease as we have just written it, while nobody is known to have written it since.
        self._ours: Object | None = None
        #: What the lease last said, and when that was first seen.
        self._seen: Object = new_lease(namespace, name)
        self._seen_at = 0.0

    @property
    def is_leader(self) -> bool:
        return self._term is not None and self._term.is_open

    @property
    def holder(self) -> str:
        """Who leads as far as is known; empty when nobody does."""
        return holder_of(self._seen)

    def stop(self) -> None:
        """Let the work come to its end, give the lease back, and have ``run`` return."""
        self._stopping.set()

    async def run(self, begin: Callable[[LeaderTerm], Worker]) -> None:
        """
        Lead whenever it is our turn, until ``stop``.

        Each time, *begin* makes a new worker: nothing that an earlier one knew is kept. One whose term ends too early
        is cancelled, for what it knows may be old. Cancelled itself, it cancels the worker and gives the lease back.
        """
        while not self._stopping.is_set():
            term = await self._taken()
            if term is not None:
                await self._lead(term, begin(term))
            else:
                await self._pause()

    async def _taken(self) -> LeaderTerm | None:
        """A term of ours, if the lease can be had now."""
        until = await self._ask(self._durations.renew / 2)
        return None if until is None else LeaderTerm(until, self._steady)

    async def _pause(self) -> None:
        # Somewhat different ones, so that those who wait do not all come at once.
        seconds = self._durations.retry * (1 + self._chance()) / 2
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _lead(self, term: LeaderTerm, worker: Worker) -> None:
        self._term = term
        log.info("leading", extra={"lease": self._name, "identity": self._identity})
        try:
            async with asyncio.TaskGroup() as group:
                working = group.create_task(worker.run())
                keeping = group.create_task(self._keep(term))
                passing = group.create_task(self._pass_on(worker))
                await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
                for task in (working, keeping, passing):
                    task.cancel()
        finally:
            if term.is_open:
                await self._give_back()
            term.close()
            self._ours = None
            log.info("no longer leading", extra={"lease": self._name, "identity": self._identity})

    async def _pass_on(self, worker: Worker) -> None:
        await self._stopping.wait()
        worker.stop()

    async def _keep(self, term: LeaderTerm) -> None:
        """Renew the lease, until that has not worked for too long or somebody else has it."""
        pause = self._until_next(term)
        while True:
            await asyncio.sleep(min(pause, term.left))
            if not term.is_open:
                break
            until = await self._ask(min(self._durations.renew / 2, term.left))
            if until is not None:
                term.extend(until)
                pause = self._until_next(term)
                continue
            if self.holder != self._identity:
                break
            pause = self._durations.retry / 4  # it is ours as far as we know, and time is short
        term.close()
        log.warning("leadership lost", extra={"lease": self._name, "holder": self.holder})

    def _until_next(self, term: LeaderTerm) -> float:
        """Seconds to the next renewal: counted from one asking to the next, however long the answer took."""
        return max(0.0, self._durations.retry - (self._durations.renew - term.left))

    async def _ask(self, patience: float) -> float | None:
        """How long the lease is ours, counted from before it was asked for; None when it is not, or nobody knows."""
        try:
            async with asyncio.timeout(patience):
                lease = self._ours or await self._read()
                self._ours = None  # whatever comes in between, it is read again
                if not self._is_free:
                    return None
                until = self._steady() + self._durations.renew
                self._ours = await self._write(
                    held(lease, self._identity, self._durations.lease, self._clock())
                )
                self._see(self._ours)
                return until
        except (LauncherError, TimeoutError) as error:
            log.info("lease not written", extra={"lease": self._name, "why": str(error) or "no answer"})
            return None

    async def _read(self) -> Object:
        """The lease as it is now; a new one when there is none."""
        try:
            lease = await self._store.get(LEASES, self._namespace, self._name)
        except NotFound:
            # Not seen as free: whoever deleted it has not told its holder, who makes it anew.
            return new_lease(self._namespace, self._name)
        self._see(lease)
        return lease

    async def _write(self, lease: Object) -> Object:
        """The lease as stored, unless somebody else has changed it: then it raises Conflict or AlreadyExists."""
        if "resourceVersion" in lease["metadata"]:
            return await self._store.update(LEASES, lease)
        return await self._store.create(LEASES, lease)

    def _see(self, lease: Object) -> None:
        if lease.get("spec") != self._seen.get("spec"):
            if holder_of(lease) != self.holder:
                log.info(
                    "the lease has a new holder",
                    extra={"lease": self._name, "holder": holder_of(lease) or None},
                )
            self._seen, self._seen_at = lease, self._steady()

    @property
    def _is_free(self) -> bool:
        """Whether it may be ours: still, or because nobody holds it, or because its holder has been silent."""
        if self.holder in ("", self._identity):
            return True
        return self._steady() - self._seen_at > seconds_of(self._seen, self._durations.lease)

    async def _give_back(self) -> None:
        """The lease is free at once, if it is still ours; else it runs out by itself."""
        try:
            async with asyncio.timeout(self._durations.renew / 2):
                lease = await self._read()
                if holder_of(lease) == self._identity:
                    self._see(await self._write(given_back(lease, self._clock())))
        except (LauncherError, TimeoutError) as error:
            log.warning("lease not given back", extra={"lease": self._name, "why": str(error) or "no answer"})
