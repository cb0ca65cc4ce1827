"""Attending to one run of a container: its postStart hook, then its probes."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from launcher.core.actions import Notice
from launcher.node.pods.hooks import LONGEST, hook_of
from launcher.node.pods.podspec import Container
from launcher.node.pods.probes import Probe, answers, probe_of
from launcher.node.pods.reaching import Reach

_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """Why the container has to end, and the grace that it is given for that, if not the pod's."""

    why: str
    grace: int | None = None


def needs_attention(spec: Mapping[str, Any]) -> bool:
    """Whether there is anything to do once the container runs."""
    return any(spec.get(probe) for probe in _PROBES) or hook_of(spec, "postStart") is not None


class Attendant:
    """What the hook and the probes of one run have shown so far."""

    def __init__(
        self,
        container: Container,
        reach: Reach,
        tell: Callable[[Notice], None],
        wake: Callable[[], None],
    ) -> None:
        self.container = container
        self._reach, self._tell, self._wake = reach, tell, wake
        self.started = False
        self.ready = False
        self.unhealthy: Unhealthy | None = None

    def resume(self, *, started: bool, ready: bool) -> None:
        """Begin with what an earlier attendant of the same run has found."""
        self.started, self.ready = started, ready

    async def attend(self, *, fresh: bool, age: float) -> None:
        """Keep asking until cancelled, or until the container has to end; a *fresh* run gets its hook first."""
        if fresh and not await self._after_start():
            return
        if not self.started and not await self._has_started(age):
            return
        self.started = True
        readiness = probe_of(self._reach.spec.get("readinessProbe"))
        self.ready = self.ready or readiness is None
        self._wake()
        async with asyncio.TaskGroup() as tasks:
            if readiness:
                tasks.create_task(self._watch_readiness(readiness, age))
            if liveness := probe_of(self._reach.spec.get("livenessProbe")):
                tasks.create_task(self._watch_liveness(liveness, age))

    async def _after_start(self) -> bool:
        hook = hook_of(self._reach.spec, "postStart")
        if hook is None:
            return True
        outcome = await self._reach.do(hook, LONGEST)
        if not outcome.good:
            self._tell(Notice("FailedPostStartHook", f"PostStartHook failed: {outcome.said}", warning=True))
            self._end(Unhealthy("FailedPostStartHook"))
        return outcome.good

    async def _has_started(self, age: float) -> bool:
        probe = probe_of(self._reach.spec.get("startupProbe"))
        return probe is None or await self._first_verdict(probe, "startup", age)

    async def _watch_liveness(self, probe: Probe, age: float) -> None:
        async with aclosing(answers(probe, self._reach.do, age)) as results:
            async for outcome, verdict in results:
                if not outcome.good:
                    self._complain("Liveness", outcome.said)
                if verdict is False:
                    self._end(
                        Unhealthy(
                            f"Container {self.container.name} failed liveness probe, will be restarted",
                            probe.grace,
                        )
                    )
                    return

    async def _watch_readiness(self, probe: Probe, age: float) -> None:
        async with aclosing(answers(probe, self._reach.do, age)) as results:
            async for outcome, verdict in results:
                if not outcome.good:
                    self._complain("Readiness", outcome.said)
                if verdict is not None and verdict is not self.ready:
                    self.ready = verdict
                    self._wake()

    async def _first_verdict(self, probe: Probe, kind: str, age: float) -> bool:
        """Whether the probe says yes before it says no."""
        async with aclosing(answers(probe, self._reach.do, age)) as results:
            async for outcome, verdict in results:
                if not outcome.good:
                    self._complain(kind.capitalize(), outcome.said)
                if verdict is False:
                    self._end(
                        Unhealthy(
                            f"Container {self.container.name} failed {kind} probe, will be restarted",
                            probe.grace,
                        )
                    )
                if verdict is not None:
                    return verdict
        return False

    def _complain(self, kind: str, said: str) -> None:
        self._tell(Notice("Unhealthy", f"{kind} probe failed: {said}", warning=True))

    def _end(self, why: Unhealthy) -> None:
        self.unhealthy = why
        self._wake()
