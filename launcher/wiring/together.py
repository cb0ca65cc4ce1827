"""The controller and those who work beside it, as the one worker of a leader."""

import asyncio
from typing import Protocol

from launcher.controller.leader import Worker


class Helper(Protocol):
    """Works until it is cancelled."""

    async def run(self) -> None: ...


class Together:
    """*worker* with its *helpers*: they work for as long as it does."""

    def __init__(self, worker: Worker, *helpers: Helper) -> None:
        self._worker, self._helpers = worker, helpers

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            helping = [group.create_task(helper.run()) for helper in self._helpers]
            await self._worker.run()
            for task in helping:
                task.cancel()

    def stop(self) -> None:
        self._worker.stop()
