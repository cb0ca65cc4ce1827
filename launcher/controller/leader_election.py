"""
Leader election by a Lease: one replica leads, the others wait.

The clocks of other machines are not compared. A candidate considers a lease expired after it has observed no change of
it for its whole duration. The leader counts its term from the moment before it sent the last successful renewal, and
the term (renew deadline) is shorter than the lease. So two terms never overlap. A write that was sent before the end
of a term has the remaining seconds of the lease to arrive, or its precondition fails.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from launcher.core.diagnosis.launcher_state import Leadership
from launcher.core.errors import LauncherError, NotFound
from launcher.core.json_access import as_object
from launcher.core.replicas import as_int
from launcher.store.backoff import wait_or_timeout
from launcher.store.fenced_store import LeaderTerm
from launcher.store.interface import LEASES, Object, Store

log = logging.getLogger(__name__)

LEASE_NAME: Final = "framework-launcher"


def _new_lease(namespace: str, name: str) -> Object:
    """Returns a lease without a holder."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


def _holder_identity(lease: Object) -> str:
    """Returns the identity of the holder; empty without one."""
    return str(_spec(lease).get("holderIdentity") or "")


def _lease_duration_seconds(lease: Object, default: float) -> float:
    """Returns the duration that the holder wrote, which may differ from the settings of this replica."""
    seconds = _spec(lease).get("leaseDurationSeconds") or default
    return seconds if isinstance(seconds, int | float) else default


def _acquired_lease(lease: Object, identity: str, seconds: float, now: float) -> Object:
    """Returns the lease as acquired or renewed by *identity*."""
    spec = _spec(lease)
    is_renewal = spec.get("holderIdentity") == identity
    was_never_held = not spec.get("acquireTime")
    transitions = as_int(spec.get("leaseTransitions"))
    return lease | {
        "spec": spec
        | {
            "holderIdentity": identity,
            "leaseDurationSeconds": max(1, math.ceil(seconds)),
            "acquireTime": (spec.get("acquireTime") if is_renewal else None) or _micro_time(now),
            "renewTime": _micro_time(now),
            "leaseTransitions": transitions if is_renewal or was_never_held else transitions + 1,
        }
    }


def _released_lease(lease: Object, now: float) -> Object:
    """Returns the lease without a holder, which any candidate may acquire at once."""
    # One second is the minimum that Kubernetes accepts.
    return lease | {
        "spec": _spec(lease)
        | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time(now)}
    }


def _spec(lease: Object) -> Object:
    return as_object(lease.get("spec"))


def _micro_time(now: float) -> str:
    """Formats a Kubernetes MicroTime: ``2026-01-31T12:00:00.000000Z``, always with six digits."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Durations of the leader election, with the names and defaults of client-go."""

    #: Candidates wait this long after the last observed renewal.
    lease_duration_seconds: float = 15.0
    #: The leader stops this long after its last successful renewal.
    renew_deadline_seconds: float = 10.0
    #: Between two attempts to acquire or renew the lease.
    retry_period_seconds: float = 2.0


class Worker(Protocol):
    """Runs while its replica leads."""

    async def run(self) -> None:
        """Runs until ``stop``, then finishes work in progress; ends at once when cancelled."""

    def stop(self) -> None:
        """Makes ``run`` start no new work and return."""


def boot_clock() -> float:
    """Seconds on a clock that cannot be set and that includes suspend, where available."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaderElector:
    """
    Acquires the lease, and runs a worker while it holds it.

    *store* should have a connection of its own: a renewal that waits for other requests can miss its deadline.
    """

    def __init__(
        self,
        store: Store,
        *,
        namespace: str,
        identity: str,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        name: str = LEASE_NAME,
        timings: LeaseTimings | None = None,
        monotonic: Callable[[], float] = boot_clock,
    ) -> None:
        """*identity* must be unique to this process: a restarted replica has another one."""
        self._store, self._namespace, self._name = store, namespace, name
        self._identity, self._clock, self._jitter, self._monotonic = identity, clock, jitter, monotonic
        self._timings = timings or LeaseTimings()
        self._stopping = asyncio.Event()
        self._term: LeaderTerm | None = None
        #: The response to this replica's last write, from which the next renewal is made; None: read the lease first.
        self._written: Object | None = None
        #: The last lease with a changed spec, and the time when it was first observed.
        self._observed: Object = _new_lease(namespace, name)
        self._observed_at = 0.0

    @property
    def is_leader(self) -> bool:
        return self._term is not None and self._term.is_open

    @property
    def holder(self) -> str:
        """The identity of the observed holder; empty without one."""
        return _holder_identity(self._observed)

    @property
    def leadership(self) -> Leadership | None:
        """The Lease as this replica observed it; None before that."""
        if "resourceVersion" not in self._observed["metadata"]:
            return None
        return Leadership(
            self._namespace,
            self.holder,
            int(self._monotonic() - self._observed_at),
            int(_lease_duration_seconds(self._observed, self._timings.lease_duration_seconds)),
        )

    def stop(self) -> None:
        """Stops the worker, releases the lease when the worker has returned, and makes ``run`` return."""
        self._stopping.set()

    async def run(self, new_worker: Callable[[LeaderTerm], Worker]) -> None:
        """
        Runs for leader until ``stop``, and runs a new worker during each term.

        A worker is cancelled when its term ends before it returns, because its state may be outdated. If ``run`` is
        cancelled, it cancels the worker and releases the lease.
        """
        while not self._stopping.is_set():
            term = await self._acquire()
            if term is not None:
                await self._lead(term, new_worker(term))
            else:
                await self._wait_before_retry()

    async def _acquire(self) -> LeaderTerm | None:
        """Returns a new term, or None if the lease could not be acquired."""
        until = await self._acquire_or_renew(self._timings.renew_deadline_seconds / 2)
        return None if until is None else LeaderTerm(until, self._monotonic)

    async def _wait_before_retry(self) -> None:
        # With jitter, so that candidates do not send their requests at the same time.
        seconds = self._timings.retry_period_seconds * (1 + self._jitter()) / 2
        await wait_or_timeout(self._stopping, seconds)

    async def _lead(self, term: LeaderTerm, worker: Worker) -> None:
        self._term = term
        log.info("leading", extra={"lease": self._name, "identity": self._identity})
        try:
            async with asyncio.TaskGroup() as group:
                worker_task = group.create_task(worker.run())
                renew_task = group.create_task(self._renew_until_lost(term))
                stop_task = group.create_task(self._stop_worker(worker))
                await asyncio.wait({worker_task, renew_task}, return_when=asyncio.FIRST_COMPLETED)
                for task in (worker_task, renew_task, stop_task):
                    task.cancel()
        finally:
            if term.is_open:
                await self._release()
            term.close()
            self._written = None
            log.info("no longer leading", extra={"lease": self._name, "identity": self._identity})

    async def _stop_worker(self, worker: Worker) -> None:
        await self._stopping.wait()
        worker.stop()

    async def _renew_until_lost(self, term: LeaderTerm) -> None:
        """Renews the lease. Returns when the renew deadline has passed or another replica holds the lease."""
        delay = self._seconds_to_renewal(term)
        while True:
            await asyncio.sleep(min(delay, term.remaining_seconds))
            if not term.is_open:
                break
            timeout_seconds = min(self._timings.renew_deadline_seconds / 2, term.remaining_seconds)
            until = await self._acquire_or_renew(timeout_seconds)
            if until is not None:
                term.extend(until)
                delay = self._seconds_to_renewal(term)
                continue
            if self.holder != self._identity:
                break
            # The lease was not observed to be lost, and the deadline is near.
            delay = self._timings.retry_period_seconds / 4
        term.close()
        log.warning("leadership lost", extra={"lease": self._name, "holder": self.holder})

    def _seconds_to_renewal(self, term: LeaderTerm) -> float:
        """Returns the seconds until the next renewal, one retry period after the last request was sent."""
        since_request = self._timings.renew_deadline_seconds - term.remaining_seconds
        return max(0.0, self._timings.retry_period_seconds - since_request)

    async def _acquire_or_renew(self, timeout_seconds: float) -> float | None:
        """
        Acquires or renews the lease.

        Returns the end of the term, counted from before the request; None if another replica holds the lease or the
        outcome is unknown.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                lease = self._written or await self._read()
                self._written = None  # read again unless the write below succeeds
                if not self._can_acquire:
                    return None
                until = self._monotonic() + self._timings.renew_deadline_seconds
                duration = self._timings.lease_duration_seconds
                self._written = await self._write(
                    _acquired_lease(lease, self._identity, duration, self._clock())
                )
                self._observe(self._written)
                return until
        except (LauncherError, TimeoutError) as error:
            log.info("lease not written", extra={"lease": self._name, "error": str(error) or "timeout"})
            return None

    async def _read(self) -> Object:
        """Returns the stored lease, or a new one if none exists."""
        try:
            lease = await self._store.get(LEASES, self._namespace, self._name)
        except NotFound:
            # Not observed as released: its holder has not stopped, and creates it again.
            return _new_lease(self._namespace, self._name)
        self._observe(lease)
        return lease

    async def _write(self, lease: Object) -> Object:
        """Returns the stored lease. Raises Conflict or AlreadyExists if another client wrote it since it was read."""
        if "resourceVersion" in lease["metadata"]:
            return await self._store.update(LEASES, lease)
        return await self._store.create(LEASES, lease)

    def _observe(self, lease: Object) -> None:
        if lease.get("spec") != self._observed.get("spec"):
            if _holder_identity(lease) != self.holder:
                log.info(
                    "lease has a new holder",
                    extra={"lease": self._name, "holder": _holder_identity(lease) or None},
                )
            self._observed, self._observed_at = lease, self._monotonic()

    @property
    def _can_acquire(self) -> bool:
        """Whether this replica holds the lease, or it has no holder, or it has expired."""
        if self.holder in ("", self._identity):
            return True
        unchanged_seconds = self._monotonic() - self._observed_at
        return unchanged_seconds > _lease_duration_seconds(
            self._observed, self._timings.lease_duration_seconds
        )

    async def _release(self) -> None:
        """Releases the lease if this replica still holds it. After an error it expires."""
        try:
            async with asyncio.timeout(self._timings.renew_deadline_seconds / 2):
                lease = await self._read()
                if _holder_identity(lease) == self._identity:
                    self._observe(await self._write(_released_lease(lease, self._clock())))
        except (LauncherError, TimeoutError) as error:
            log.warning("lease not released", extra={"lease": self._name, "error": str(error) or "timeout"})
