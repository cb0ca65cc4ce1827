"""Runs the postStart hook and the probes of one run of a container."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from launcher.core.events import ObjectEvent
from launcher.node.agent.handler_runner import MAX_HOOK_SECONDS, HandlerResult, HandlerRunner, hook_action
from launcher.node.pods.pod_spec import Container

_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe's action, times in seconds, and thresholds."""

    action: Mapping[str, Any]
    delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3
    #: The grace period of a container that this probe kills; None for that of the pod.
    grace_seconds: int | None = None


def parse_probe(spec: Mapping[str, Any] | None) -> Probe | None:
    """The probe of a container's spec; None if it has none."""
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


class ResultCounter:
    """Counts consecutive equal results of a probe."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._count = 0

    def add(self, succeeded: bool) -> bool | None:
        """The result of the probe, once enough consecutive results agree; else None."""
        self._count = self._count + 1 if succeeded is self._last else 1
        self._last = succeeded
        threshold = self._probe.success_threshold if succeeded else self._probe.failure_threshold
        return succeeded if self._count >= threshold else None


async def probe_results(
    probe: Probe, run_action: Callable[[Mapping[str, Any], float], Awaitable[HandlerResult]], age: float
) -> AsyncGenerator[tuple[HandlerResult, bool | None], None]:
    """
    Run the probe periodically. Yields each result, and that of the probe once its threshold is reached.

    *age* is how long the container has been running.
    """
    counter = ResultCounter(probe)
    await asyncio.sleep(max(0.0, probe.delay - age))
    while True:
        result = await run_action(probe.action, probe.timeout)
        yield result, counter.add(result.succeeded)
        await asyncio.sleep(probe.period)


@dataclass(frozen=True, slots=True)
class KillReason:
    """Why a container has to be killed, and its grace period, if it is not that of the pod."""

    message: str
    grace_seconds: int | None = None


def needs_probe_worker(spec: Mapping[str, Any]) -> bool:
    """Whether the container has a probe or a postStart hook."""
    return any(spec.get(probe) for probe in _PROBES) or hook_action(spec, "postStart") is not None


class ProbeWorker:
    """The hook and the probes of one run, with their latest results."""

    def __init__(
        self,
        container: Container,
        runner: HandlerRunner,
        record: Callable[[ObjectEvent], None],
        wake: Callable[[], None],
    ) -> None:
        """*record* records an event of the pod; *wake* requests a sync of the pod."""
        self.container = container
        self._runner, self._record, self._wake = runner, record, wake
        self.started = False
        self.ready = False
        self.kill_reason: KillReason | None = None

    def resume(self, *, started: bool, ready: bool) -> None:
        """Takes over the results of an earlier worker of the same run."""
        self.started, self.ready = started, ready

    async def run(self, *, just_started: bool, age: float) -> None:
        """Probes until cancelled, or until the container has to be killed; runs postStart if *just_started*."""
        if just_started and not await self._run_post_start():
            return
        if not self.started and not await self._has_started(age):
            return
        self.started = True
        readiness = parse_probe(self._runner.spec.get("readinessProbe"))
        self.ready = self.ready or readiness is None
        self._wake()
        async with asyncio.TaskGroup() as tasks:
            if readiness:
                tasks.create_task(self._watch_readiness(readiness, age))
            if liveness := parse_probe(self._runner.spec.get("livenessProbe")):
                tasks.create_task(self._watch_liveness(liveness, age))

    async def _run_post_start(self) -> bool:
        hook = hook_action(self._runner.spec, "postStart")
        if hook is None:
            return True
        result = await self._runner.run_action(hook, MAX_HOOK_SECONDS)
        if not result.succeeded:
            message = f"PostStartHook failed: {result.output}"
            self._record(ObjectEvent("FailedPostStartHook", message, warning=True))
            self._kill(KillReason("FailedPostStartHook"))
        return result.succeeded

    async def _has_started(self, age: float) -> bool:
        """Whether the startup probe succeeds before it fails."""
        probe = parse_probe(self._runner.spec.get("startupProbe"))
        if probe is None:
            return True
        async with aclosing(probe_results(probe, self._runner.run_action, age)) as results:
            async for result, outcome in results:
                self._record_failure("Startup", result)
                if outcome is False:
                    self._kill_for("startup", probe)
                if outcome is not None:
                    return outcome
        return False

    async def _watch_liveness(self, probe: Probe, age: float) -> None:
        async with aclosing(probe_results(probe, self._runner.run_action, age)) as results:
            async for result, outcome in results:
                self._record_failure("Liveness", result)
                if outcome is False:
                    self._kill_for("liveness", probe)
                    return

    async def _watch_readiness(self, probe: Probe, age: float) -> None:
        async with aclosing(probe_results(probe, self._runner.run_action, age)) as results:
            async for result, outcome in results:
                self._record_failure("Readiness", result)
                if outcome is not None and outcome is not self.ready:
                    self.ready = outcome
                    self._wake()

    def _record_failure(self, kind: str, result: HandlerResult) -> None:
        if not result.succeeded:
            self._record(ObjectEvent("Unhealthy", f"{kind} probe failed: {result.output}", warning=True))

    def _kill_for(self, kind: str, probe: Probe) -> None:
        message = f"Container {self.container.name} failed {kind} probe, will be restarted"
        self._kill(KillReason(message, probe.grace_seconds))

    def _kill(self, reason: KillReason) -> None:
        self.kill_reason = reason
        self._wake()
