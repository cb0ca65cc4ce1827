"""An event loop in virtual time: when nothing is ready, its clock advances to the next timer."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(AssertionError):
    """Nothing is ready and no timer is set, so the pending tasks would wait forever."""


class _Selector(selectors.SelectSelector):
    """Advances the clock instead of waiting for files."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError
        self.time += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs coroutines in virtual time: waiting takes no real time."""

    def __init__(self) -> None:
        self._clock_selector = _Selector()
        super().__init__(self._clock_selector)

    def time(self) -> float:
        return self._clock_selector.time


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs *main* in virtual time and returns its result."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(_cancel_all(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancels the tasks and waits until they have ended; some release a lease first."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=3600.0)
