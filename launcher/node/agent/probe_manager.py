"""Attending to one run of a container: its postStart hook, then its probes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from launcher.core.planning.actions import ObjectEvent
from launcher.node.agent.handler_runner import LONGEST, HandlerRunner, Outcome, hook_of
from launcher.node.pods.pod_spec import Container


@dataclass(frozen=True, slots=True)
class Probe:
    """What to ask, when, and how many answers count."""

    action: Mapping[str, Any]
    delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3
    #: Seconds that a container has to end when this probe ends it; None is what the pod says.
    grace: int | None = None


def probe_of(spec: Mapping[str, Any] | None) -> Probe | None:
    """The probe that a container's spec describes; None if it has none."""
    if not spec:
        return None
    return Probe(
        spec,
        float(spec.get("initialDelaySeconds") or 0),
        float(spec.get("periodSeconds") or 10),
        float(spec.get("timeoutSeconds") or 1),
        int(spec.get("successThreshold") or 1),
        int(spec.get("failureThreshold") or 3),
        spec.get("terminationGracePeriodSeconds"),
    )


class Tally:
    """Answers counted in a row."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._good: bool | None = None
        self._count = 0

    def count(self, good: bool) -> bool | None:
        """What the answers so far say; None while too few of them agree."""
        self._count = self._count + 1 if good is self._good else 1
        self._good = good
        enough = self._probe.successes if good else self._probe.failures
        return good if self._count >= enough else None


async def answers(
    probe: Probe, ask: Callable[[Mapping[str, Any], float], Awaitable[Outcome]], age: float
) -> AsyncGenerator[tuple[Outcome, bool | None], None]:
    """Every answer with what the answers so far say; *age* is how long the container has been running."""
    tally = Tally(probe)
    await asyncio.sleep(max(0.0, probe.delay - age))
    while True:
        outcome = await ask(probe.action, probe.timeout)
        yield outcome, tally.count(outcome.good)
        await asyncio.sleep(probe.period)


_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(frozen=True, slots=True)
class KillReason:
    """Why the container has to end, and the grace that it is given for that, if not the pod's."""

    why: str
    grace: int | None = None


def needs_attention(spec: Mapping[str, Any]) -> bool:
    """Whether there is anything to do once the container runs."""
    return any(spec.get(probe) for probe in _PROBES) or hook_of(spec, "postStart") is not None


class ProbeWorker:
    """What the hook and the probes of one run have shown so far."""

    def __init__(
        self,
        container: Container,
        reach: HandlerRunner,
        tell: Callable[[ObjectEvent], None],
        wake: Callable[[], None],
    ) -> None:
        self.container = container
        self._reach, self._tell, self._wake = reach, tell, wake
        self.started = False
        self.ready = False
        self.unhealthy: KillReason | None = None

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
            self._tell(
                ObjectEvent("FailedPostStartHook", f"PostStartHook failed: {outcome.output}", warning=True)
            )
            self._end(KillReason("FailedPostStartHook"))
        return outcome.good

    async def _has_started(self, age: float) -> bool:
        probe = probe_of(self._reach.spec.get("startupProbe"))
        return probe is None or await self._first_verdict(probe, "startup", age)

    async def _watch_liveness(self, probe: Probe, age: float) -> None:
        async with aclosing(answers(probe, self._reach.do, age)) as results:
            async for outcome, verdict in results:
                if not outcome.good:
                    self._complain("Liveness", outcome.output)
                if verdict is False:
                    self._end(
                        KillReason(
                            f"Container {self.container.name} failed liveness probe, will be restarted",
                            probe.grace,
                        )
                    )
                    return

    async def _watch_readiness(self, probe: Probe, age: float) -> None:
        async with aclosing(answers(probe, self._reach.do, age)) as results:
            async for outcome, verdict in results:
                if not outcome.good:
                    self._complain("Readiness", outcome.output)
                if verdict is not None and verdict is not self.ready:
                    self.ready = verdict
                    self._wake()

    async def _first_verdict(self, probe: Probe, kind: str, age: float) -> bool:
        """Whether the probe says yes before it says no."""
        async with aclosing(answers(probe, self._reach.do, age)) as results:
            async for outcome, verdict in results:
                if not outcome.good:
                    self._complain(kind.capitalize(), outcome.output)
                if verdict is False:
                    self._end(
                        KillReason(
                            f"Container {self.container.name} failed {kind} probe, will be restarted",
                            probe.grace,
                        )
                    )
                if verdict is not None:
                    return verdict
        return False

    def _complain(self, kind: str, said: str) -> None:
        self._tell(ObjectEvent("Unhealthy", f"{kind} probe failed: {said}", warning=True))

    def _end(self, why: KillReason) -> None:
        self.unhealthy = why
        self._wake()
