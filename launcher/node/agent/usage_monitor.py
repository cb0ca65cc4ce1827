"""The use of CPU and memory by containers, measured when it is requested."""

import asyncio
from collections.abc import Callable

from launcher.core.pods.resource_usage import ContainerUsage, UsageReport
from launcher.node.container_runtime import ResourceUsage, RunId, RuntimeService

#: The time over which the CPU is measured, if there is no earlier measurement in between.
_MIN_WINDOW_SECONDS = 1.0
_MAX_WINDOW_SECONDS = 60.0

_Measurement = tuple[float, dict[RunId, ResourceUsage]]


class UsageMonitor:
    """Computes rates from two measurements. It measures nothing while nothing is requested."""

    def __init__(self, runtime: RuntimeService, clock: Callable[[], float]) -> None:
        """*clock* returns seconds since 1970."""
        self._runtime, self._clock = runtime, clock
        self._lock = asyncio.Lock()
        self._last: _Measurement | None = None
        self._report: UsageReport | None = None

    async def read(self) -> UsageReport:
        """Returns the use since the last measurement, or over a second if there is none. Raises Unavailable."""
        async with self._lock:
            now = self._clock()
            if self._report is not None and 0 <= now - self._report.at < _MIN_WINDOW_SECONDS:
                return self._report
            if self._last is None or not 0 <= now - self._last[0] <= _MAX_WINDOW_SECONDS:
                self._last = await self._measure()
                await asyncio.sleep(_MIN_WINDOW_SECONDS)
            before, self._last = self._last, await self._measure()
            self._report = _report(before, self._last)
            return self._report

    async def _measure(self) -> _Measurement:
        usage = dict(await self._runtime.list_container_stats())
        return self._clock(), usage


def _report(before: _Measurement, now: _Measurement) -> UsageReport:
    window = max(now[0] - before[0], 1e-3)
    containers = {}
    for run, used in now[1].items():
        uid, container, _ = run.split(".")
        # A container that has started in between has used all of it in the window.
        earlier = before[1].get(run, ResourceUsage(0.0, 0))
        cpu = max(0.0, used.cpu_seconds - earlier.cpu_seconds) / window
        containers[uid, container] = ContainerUsage(cpu, used.memory_bytes)
    return UsageReport(now[0], window, containers)
