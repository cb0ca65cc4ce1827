"""The controller and those who work beside it, as the one worker of a leader."""

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

from launcher.controller.leader_election import Worker


def stop_event() -> asyncio.Event:
    """Set by SIGTERM or SIGINT from now on; SIGHUP does nothing yet."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # A signal that is ignored would be ignored in pods, too; one that is handled is not.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    return stop


def reload_on_hangup(reload: Callable[[], None]) -> None:
    """Call *reload* on each SIGHUP from now on."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


class Runnable(Protocol):
    """Works until it is cancelled."""

    async def run(self) -> None: ...


class WorkerGroup:
    """*worker* with its *helpers*: they work for as long as it does."""

    def __init__(self, worker: Worker, *helpers: Runnable) -> None:
        self._worker, self._helpers = worker, helpers

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            helping = [group.create_task(helper.run()) for helper in self._helpers]
            await self._worker.run()
            for task in helping:
                task.cancel()

    def stop(self) -> None:
        self._worker.stop()
