"""Names to be worked on: each at most once at a time, and once more if something happens meanwhile."""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """
    One entry per key. A key that is being worked on is handed out again only after ``done``.

    Everything here happens on the event loop's thread and clock.
    """

    def __init__(self) -> None:
        self._ready: deque[Key] = deque()
        #: Keys in ``_ready``, or to be put there once they are done.
        self._dirty: set[Key] = set()
        self._working: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: Key) -> None:
        """Work on *key* as soon as somebody has time."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._hand_in(key)

    def add_after(self, key: Key, delay: float) -> None:
        """Work on *key* in *delay* seconds; of several delays the shortest counts."""
        if delay <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due, known = loop.time() + delay, self._timers.get(key)
        if known is not None:
            if known.when() <= due:
                return
            known.cancel()
        self._timers[key] = loop.call_at(due, self._ring, key)

    async def get(self) -> Key | None:
        """The next key, which is the caller's until ``done``; None once the queue is closed."""
        while not self._ready and not self._closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise
        if self._closed:
            return None
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key) -> None:
        """The caller has finished with *key*."""
        self._working.discard(key)
        if key in self._dirty:
            self._hand_in(key)

    def close(self) -> None:
        """Hand out nothing more."""
        self._closed = True
        while self._waiters:
            self._wake_one()

    def forget(self, key: Key) -> None:
        """No timer calls for *key* any more."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _ring(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _hand_in(self, key: Key) -> None:
        self._ready.append(key)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _pass_on(self, waiter: "asyncio.Future[None]") -> None:
        """Whoever was woken and then cancelled wakes the next, so that no key is left lying."""
        if waiter.done() and not waiter.cancelled():
            self._wake_one()
