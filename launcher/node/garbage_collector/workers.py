"""Things to see to: each by one worker at a time, once however often it is asked for, again if it fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from launcher.core.errors import LauncherError
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import Key
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: How errors call the garbage collector.
COMPONENT = "garbage-collector"

K = TypeVar("K", bound=Hashable)


class Chores(Generic[K]):
    """Calls *see_to* with everything that was added, a few at a time; what raises an error comes again."""

    def __init__(self, see_to: Callable[[K], Awaitable[None]], kind: str, workers: int = 16) -> None:
        """*kind* is what errors call the things that are seen to."""
        self._see_to, self._kind, self._workers = see_to, kind, workers
        self._queue: asyncio.Queue[K] = asyncio.Queue()
        #: In the queue, or, while worked on, to be put there again.
        self._dirty: set[K] = set()
        self._busy: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._pauses: dict[K, ExponentialBackoff] = {}

    def add(self, what: K) -> None:
        """See to it as soon as somebody has time."""
        if (timer := self._timers.pop(what, None)) is not None:
            timer.cancel()
        if what not in self._dirty:
            self._dirty.add(what)
            if what not in self._busy:
                self._queue.put_nowait(what)

    def later(self, what: K, seconds: float) -> None:
        """See to it after so many seconds, or earlier if it is added meanwhile."""
        if what not in self._timers and what not in self._dirty:
            self._timers[what] = asyncio.get_running_loop().call_later(seconds, self.add, what)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            what = await self._queue.get()
            self._dirty.discard(what)
            self._busy.add(what)
            try:
                await self._see_to(what)
            except LauncherError as error:
                log.info("chore failed", extra={"chore": what, "why": str(error)})
                self._again(what)
            except Exception as error:
                object_errors.record(COMPONENT, self._kind, _key(what), error)
                self._again(what)
            else:
                self._pauses.pop(what, None)
                object_errors.resolve(COMPONENT, self._kind, _key(what))
            finally:
                self._busy.discard(what)
            if what in self._dirty:
                self._queue.put_nowait(what)

    def _again(self, what: K) -> None:
        self.later(what, self._pauses.setdefault(what, ExponentialBackoff(first=0.1, most=30.0)).next_delay())


def _key(what: Hashable) -> Key:
    """How errors call it: an object's key, or the name or uid that stands for one."""
    match what:
        case (str() as namespace, str() as name):
            return namespace, name
        case _:
            return "", str(what)
