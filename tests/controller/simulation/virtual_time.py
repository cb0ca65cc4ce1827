"""An event loop in which nobody waits: when nothing is ready, the clock jumps to whatever comes next."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(AssertionError):
    """Nothing is ready and nothing is to come: whoever is still waiting waits for ever."""


class _Selector(selectors.SelectSelector):
    """Instead of waiting for files, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck
        self.time += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs coroutines in virtual time: a day takes as long as what happens in it."""

    def __init__(self) -> None:
        self._moving = _Selector()
        super().__init__(self._moving)

    def time(self) -> float:
        return self._moving.time


def run(main: Coroutine[Any, Any, T]) -> T:
    """What *main* returns, in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(_pause())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _pause() -> None:
    """Lets those who were cancelled come to their end."""
    for _ in range(10):
        await asyncio.sleep(0)
