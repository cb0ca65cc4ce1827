"""Signals, and components that run together."""

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

from launcher.controller.leader_election import Worker


def stop_event() -> asyncio.Event:
    """Returns an event set by SIGTERM or SIGINT. SIGHUP has no effect yet."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # An ignored signal would also be ignored in pods; a handled one is not.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    return stop


def reload_on_hangup(reload: Callable[[], None]) -> None:
    """Calls *reload* on each SIGHUP."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


class Runnable(Protocol):
    """Runs until cancelled."""

    async def run(self) -> None: ...


class WorkerGroup:
    """Runs *background* as long as *worker* runs."""

    def __init__(self, worker: Worker, *background: Runnable) -> None:
        self._worker, self._background = worker, background

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in self._background]
            await self._worker.run()
            for task in tasks:
                task.cancel()

    def stop(self) -> None:
        self._worker.stop()
