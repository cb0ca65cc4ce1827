"""Bringing one run to its end: its preStop hook, then a request, and by force when the grace is over."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launcher.core.errors import Unavailable
from launcher.core.planning.actions import ObjectEvent
from launcher.node.agent.handler_runner import HandlerRunner, Outcome
from launcher.node.container_runtime import RunId, Runtime
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout

log = logging.getLogger(__name__)

#: Seconds until a run that was killed and has not ended is killed once more.
_PATIENCE = 5.0


async def kill_and_remove_runs(runtime: Runtime, runs: Iterable[RunId], changed: asyncio.Event) -> None:
    """None of these runs, by force if need be, and none of them known; *changed* says that one may have ended."""
    waiting = [run for run in runs if run in runtime.runs()]
    pauses = ExponentialBackoff(first=0.1, most=10.0)
    while waiting:
        changed.clear()
        try:
            waiting = [run for run in waiting if not await _is_gone(runtime, run)]
        except Unavailable as error:
            log.info("runs not ended", extra={"runs": len(waiting), "why": str(error)})
            await asyncio.sleep(pauses.next_delay())
            continue
        if waiting:
            await wait_or_timeout(changed, _PATIENCE)


async def _is_gone(runtime: Runtime, run: RunId) -> bool:
    known = runtime.runs().get(run)
    if known is not None and known.ended is None:
        await runtime.signal(run, signal.SIGKILL)
        known = runtime.runs().get(run)
    if known is not None and known.ended is None:
        return False
    if known is not None:
        await runtime.remove(run)
    return True


#: What a container gets after a hook that took all of the grace.
_LEAST = 2.0
#: How soon to try again what could not be done.
_AGAIN = 1.0


class ContainerTermination:
    """One run that has to end. Level-driven: ``step`` may be called at any time and does what is due."""

    def __init__(
        self, reach: HandlerRunner, hook: Mapping[str, Any] | None, wake: Callable[[], None]
    ) -> None:
        """*wake* has ``step`` called again."""
        self._reach, self._wake = reach, wake
        self._action = hook
        self._hook: asyncio.Task[Outcome] | None = None
        self._hook_done = hook is None
        self._asked: float | None = None
        self._forced = False

    async def step(
        self, tasks: asyncio.TaskGroup, now: float, kill_at: float
    ) -> tuple[float | None, ObjectEvent | None]:
        """When to look again, and what there is to tell; *kill_at* may have moved since the last step."""
        try:
            return await self._step(tasks, now, kill_at)
        except Unavailable:
            return now + _AGAIN, None

    async def _step(
        self, tasks: asyncio.TaskGroup, now: float, kill_at: float
    ) -> tuple[float | None, ObjectEvent | None]:
        told = None
        if not self._hook_done:
            told = self._after_hook(tasks, now, kill_at)
            if not self._hook_done:
                return kill_at, None
        if self._asked is None:
            await self._reach.runtime.signal(self._reach.run, signal.SIGTERM)
            self._asked = now
        if self._action is not None:
            kill_at = max(kill_at, self._asked + _LEAST)
        if now < kill_at:
            return kill_at, told
        if not self._forced:
            await self._reach.runtime.signal(self._reach.run, signal.SIGKILL)
            self._forced = True
        return None, told

    def end(self) -> None:
        """The run is over: nothing more is done to it."""
        if self._hook is not None:
            self._hook.cancel()

    def _after_hook(self, tasks: asyncio.TaskGroup, now: float, kill_at: float) -> ObjectEvent | None:
        """See to the hook, which is begun, done, or given up at *kill_at*."""
        assert self._action is not None
        if self._hook is None:
            within = max(0.0, kill_at - now)
            self._hook = tasks.create_task(self._reach.do(self._action, within))
            self._hook.add_done_callback(lambda _: self._wake())
        if not self._hook.done():
            if now < kill_at:
                return None
            self._hook.cancel()
            self._hook_done = True
            return ObjectEvent(
                "FailedPreStopHook", "PreStopHook failed: it took longer than the grace period", warning=True
            )
        self._hook_done = True
        outcome = self._hook.result()
        return (
            None
            if outcome.good
            else ObjectEvent("FailedPreStopHook", f"PreStopHook failed: {outcome.output}", warning=True)
        )
