"""Stops runs: the preStop hook, then SIGTERM, and SIGKILL at the end of the grace period."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launcher.core.errors import Unavailable
from launcher.core.events import ObjectEvent
from launcher.node.agent.handler_runner import HandlerResult, HandlerRunner
from launcher.node.container_runtime import RunId, RuntimeService
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout

log = logging.getLogger(__name__)

#: Seconds until a killed run that has not ended is killed again.
_KILL_INTERVAL_SECONDS = 5.0
#: The shortest time between SIGTERM and SIGKILL after a hook that used up the grace period.
_MIN_GRACE_AFTER_HOOK_SECONDS = 2.0
_RETRY_SECONDS = 1.0


async def kill_and_remove_runs(
    runtime: RuntimeService, runs: Iterable[RunId], changed: asyncio.Event
) -> None:
    """
    Kills these runs and removes them from the runtime; *changed* is set when one may have ended.

    Also removes runs that the runtime has not observed.
    """
    remaining = list(runs)
    backoff = ExponentialBackoff(initial=0.1, maximum=10.0)
    while remaining:
        changed.clear()
        try:
            remaining = [run for run in remaining if not await _kill_and_remove(runtime, run)]
        except Unavailable as error:
            log.info("containers not stopped", extra={"runs": len(remaining), "error": str(error)})
            await asyncio.sleep(backoff.next_delay())
            continue
        if remaining:
            await wait_or_timeout(changed, _KILL_INTERVAL_SECONDS)


async def _kill_and_remove(runtime: RuntimeService, run_id: RunId) -> bool:
    """Returns whether the run no longer exists."""
    run = runtime.list_containers().get(run_id)
    if run is not None and run.ended is None:
        await runtime.signal(run_id, signal.SIGKILL)
        run = runtime.list_containers().get(run_id)
    if run is not None and run.ended is None:
        return False
    await runtime.remove_container(run_id)
    return True


class ContainerStop:
    """The stop of one run. Level-driven: ``step`` may be called at any time and does what is due."""

    def __init__(
        self, runner: HandlerRunner, hook: Mapping[str, Any] | None, wake: Callable[[], None]
    ) -> None:
        """*wake* requests another call of ``step``."""
        self._runner, self._wake = runner, wake
        self._action = hook
        self._hook: asyncio.Task[HandlerResult] | None = None
        self._hook_done = hook is None
        self._terminated_at: float | None = None
        self._killed = False

    async def step(
        self, tasks: asyncio.TaskGroup, now: float, kill_at: float
    ) -> tuple[float | None, ObjectEvent | None]:
        """Does what is due. Returns the time of the next step and an event; *kill_at* may change between steps."""
        try:
            return await self._step(tasks, now, kill_at)
        except Unavailable:
            return now + _RETRY_SECONDS, None

    async def _step(
        self, tasks: asyncio.TaskGroup, now: float, kill_at: float
    ) -> tuple[float | None, ObjectEvent | None]:
        event = None
        if not self._hook_done:
            event = self._run_hook(tasks, now, kill_at)
            if not self._hook_done:
                return kill_at, None
        if self._terminated_at is None:
            await self._runner.runtime.signal(self._runner.run, signal.SIGTERM)
            self._terminated_at = now
        if self._action is not None:
            kill_at = max(kill_at, self._terminated_at + _MIN_GRACE_AFTER_HOOK_SECONDS)
        if now < kill_at:
            return kill_at, event
        if not self._killed:
            await self._runner.runtime.signal(self._runner.run, signal.SIGKILL)
            self._killed = True
        return None, event

    def cancel(self) -> None:
        """Cancels the hook: the run has ended."""
        if self._hook is not None:
            self._hook.cancel()

    def _run_hook(self, tasks: asyncio.TaskGroup, now: float, kill_at: float) -> ObjectEvent | None:
        """Starts the hook, or checks whether it is done; it is cancelled at *kill_at*. Returns its failure."""
        assert self._action is not None
        if self._hook is None:
            self._hook = tasks.create_task(self._runner.run_action(self._action, max(0.0, kill_at - now)))
            self._hook.add_done_callback(lambda _: self._wake())
        if not self._hook.done():
            if now < kill_at:
                return None
            self._hook.cancel()
            self._hook_done = True
            return _hook_failed("it took longer than the grace period")
        self._hook_done = True
        result = self._hook.result()
        return None if result.succeeded else _hook_failed(result.output)


def _hook_failed(message: str) -> ObjectEvent:
    return ObjectEvent("FailedPreStopHook", f"PreStopHook failed: {message}", warning=True)
