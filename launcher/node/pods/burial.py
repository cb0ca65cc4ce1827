"""What is left of a pod that is over: no process, no run that is known, no file."""

import asyncio
import logging
import signal
from collections.abc import Iterable

from launcher.core.errors import Unavailable
from launcher.node.pods.patience import happens
from launcher.node.runtime import RunId, Runtime
from launcher.store.pauses import Pauses

log = logging.getLogger(__name__)

#: Seconds until a run that was killed and has not ended is killed once more.
_PATIENCE = 5.0


async def end_runs(runtime: Runtime, runs: Iterable[RunId], changed: asyncio.Event) -> None:
    """None of these runs, by force if need be, and none of them known; *changed* says that one may have ended."""
    waiting = [run for run in runs if run in runtime.runs()]
    pauses = Pauses(first=0.1, most=10.0)
    while waiting:
        changed.clear()
        try:
            waiting = [run for run in waiting if not await _is_gone(runtime, run)]
        except Unavailable as error:
            log.info("runs not ended", extra={"runs": len(waiting), "why": str(error)})
            await asyncio.sleep(pauses.next())
            continue
        if waiting:
            await happens(changed, _PATIENCE)


async def _is_gone(runtime: Runtime, run: RunId) -> bool:
    known = runtime.runs().get(run)
    if known is not None and known.ended is None:
        await runtime.signal(run, signal.SIGKILL)
        known = runtime.runs().get(run)
    if known is not None and known.ended is None:
        return False
    if known is not None:
        await runtime.forget(run)
    return True
