"""Jobs of somebody else's kind in a cluster: run as long as they are ours."""

import asyncio
from collections.abc import Callable

from launcher.controller.mirror import Mirror
from launcher.jobs.foreign import FOREIGN, Foreign
from launcher.jobs.served import OwnJobs


class ClusterJobs:
    """One mirror for each kind that is ours, each time made anew: nothing that an earlier one knew is kept."""

    def __init__(self, own: OwnJobs, begin: Callable[[Foreign], Mirror]) -> None:
        self._own, self._begin = own, begin

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for foreign in FOREIGN:
                group.create_task(self._keep(foreign))

    async def _keep(self, foreign: Foreign) -> None:
        while True:
            await self._own.turned(foreign, ours=True)
            working = asyncio.create_task(self._begin(foreign).run())
            leaving = asyncio.create_task(self._own.turned(foreign, ours=False))
            try:
                await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (working, leaving):
                    task.cancel()
                await asyncio.wait([working, leaving])
            if not working.cancelled():
                await working  # raises what it has failed with
