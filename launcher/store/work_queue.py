"""A work queue as in client-go, and the loop of workers that reconciles its keys."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from launcher.core.errors import LauncherError
from launcher.store import instrumentation
from launcher.store.backoff import ExponentialBackoff
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
Reconcile = Callable[[Key], Awaitable[None]]

#: Back-off between failed reconciles of one key.
_INITIAL_RETRY_SECONDS = 0.1
_MAX_RETRY_SECONDS = 30.0


class WorkQueue(Generic[Key]):
    """
    Keys to reconcile, each at most once. A key in work is returned by ``get`` again only after ``done``.

    Not thread-safe: all calls are made on the event loop.
    """

    def __init__(self, name: str = "") -> None:
        """*name* is that of the controller in metrics."""
        self.name = name
        instrumentation.register_queue(self)
        #: Keys, and the times at which they were added.
        self._ready: deque[tuple[Key, float]] = deque()
        #: Keys in ``_ready``, and keys in work that were added again.
        self._dirty: set[Key] = set()
        self._working: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._backoffs: dict[Key, ExponentialBackoff] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def oldest_seconds(self) -> float:
        """How long the next key has waited; 0 if the queue is empty."""
        return time.monotonic() - self._ready[0][1] if self._ready else 0.0

    def add(self, key: Key) -> None:
        """Adds *key* unless it is queued already."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._enqueue(key)

    def add_after(self, key: Key, delay: float) -> None:
        """Adds *key* in *delay* seconds. Of several delays the shortest counts."""
        if delay <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due, timer = loop.time() + delay, self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._on_timer, key)

    def add_rate_limited(self, key: Key) -> None:
        """Adds *key* after a delay that doubles with every failure since the last ``reset_backoff``."""
        backoff = self._backoffs.get(key)
        if backoff is None:
            backoff = self._backoffs[key] = ExponentialBackoff(_INITIAL_RETRY_SECONDS, _MAX_RETRY_SECONDS)
        self.add_after(key, backoff.next_delay())

    def reset_backoff(self, key: Key) -> None:
        """Resets the delay of ``add_rate_limited`` after a success."""
        self._backoffs.pop(key, None)

    async def get(self) -> Key | None:
        """Returns the next key, which is in work until ``done``. None once the queue is closed."""
        while not self._ready and not self._closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._wake_another(waiter)
                raise
        if self._closed:
            return None
        key, _ = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key) -> None:
        """Ends the work on *key*."""
        self._working.discard(key)
        if key in self._dirty:
            self._enqueue(key)

    def close(self) -> None:
        """Makes ``get`` return None from now on. The queued keys are dropped, so that they are not reported."""
        self._closed = True
        self._ready.clear()
        while self._waiters:
            self._wake_one()

    def forget(self, key: Key) -> None:
        """Cancels the timer and the back-off of a key whose object was deleted."""
        self._backoffs.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _on_timer(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _enqueue(self, key: Key) -> None:
        if self._closed:
            return
        self._ready.append((key, time.monotonic()))
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_another(self, waiter: "asyncio.Future[None]") -> None:
        """A worker cancelled after it was woken wakes the next one, so that its key is not left in the queue."""
        if waiter.done() and not waiter.cancelled():
            self._wake_one()


async def run_workers(queue: WorkQueue[Key], reconcile: Reconcile[Key], workers: int) -> None:
    """Reconciles the keys of *queue* with so many concurrent workers. Returns after ``queue.close``."""
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_run_worker(queue, reconcile))


async def _run_worker(queue: WorkQueue[Key], reconcile: Reconcile[Key]) -> None:
    while (key := await queue.get()) is not None:
        started = time.monotonic()
        try:
            await reconcile(key)
        finally:
            queue.done(key)
            instrumentation.reconcile_completed(queue.name, time.monotonic() - started)
        await asyncio.sleep(0)  # a reconcile that never waited must not starve other tasks


def retry_on_error(
    queue: WorkQueue[Key], reconcile: Reconcile[Key], component: str, kind: str
) -> Reconcile[Key]:
    """
    Returns *reconcile* with its errors handled: the key is added again with a back-off.

    Expected errors are logged; others are recorded in ``object_errors`` for *component* and *kind*, so that a bug
    concerns one object only.
    """

    async def reconcile_with_retries(key: Key) -> None:
        try:
            await reconcile(key)
        except LauncherError as error:
            log.info("reconcile failed", extra={"component": component, "key": key, "error": str(error)})
            instrumentation.reconcile_retried(queue.name, type(error).__name__)
            queue.add_rate_limited(key)
        except Exception as error:
            object_errors.record(component, kind, _object_key(key), error)
            instrumentation.reconcile_retried(queue.name, instrumentation.UNEXPECTED)
            queue.add_rate_limited(key)
        else:
            queue.reset_backoff(key)
            object_errors.resolve(component, kind, _object_key(key))

    return reconcile_with_retries


def _object_key(key: Hashable) -> tuple[str, str]:
    """Namespace and name of the object; of another key, such as a uid, its text in place of the name."""
    match key:
        case (str() as namespace, str() as name):
            return namespace, name
        case _:
            return "", str(key)
