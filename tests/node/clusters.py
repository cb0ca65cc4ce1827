"""A store and the parts of local mode that work on it, for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from launcher.store.embedded.memory_store import MemoryStore
from tests.store.builders import uids

NOW = 1_700_000_000.0


class Part(Protocol):
    """Something that works until cancelled."""

    async def run(self) -> None: ...


def a_store(clock: Callable[[], float] = lambda: NOW) -> MemoryStore:
    return MemoryStore(clock, uids())


@asynccontextmanager
async def running(*parts: Part) -> AsyncIterator[None]:
    """These at work, until the block ends."""
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [one for one in results if isinstance(one, Exception)]
        if failures:
            raise failures[0]


async def quiet(store: MemoryStore, iterations: int = 200) -> None:
    """Return when nothing has been written for a number of iterations of the loop."""
    version, still = store.version, 0
    while still < iterations:
        await asyncio.sleep(0)
        still = still + 1 if store.version == version else 0
        version = store.version
