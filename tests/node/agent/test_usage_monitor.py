"""Rates of CPU time, from measurements of the runtime, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import astuple
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.node.agent.usage_monitor import UsageMonitor
from launcher.node.container_runtime import ResourceUsage, RunId
from tests.controller.simulation import virtual_time
from tests.node.fake_runtime import FakeRuntime

RUN = RunId("uid.main.0")


class BusyRuntime(FakeRuntime):
    """A runtime with a container that uses half a core."""

    measurements = 0

    async def list_container_stats(self) -> dict[RunId, ResourceUsage]:
        self._fail_if_requested()
        self.measurements += 1
        return {RUN: ResourceUsage(self._clock() / 2, 7000)}


def run(scenario: Callable[[BusyRuntime, UsageMonitor], Coroutine[Any, Any, None]]) -> None:
    """Runs *scenario* with a clock that starts at 1000."""

    async def timed() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()

        def clock() -> float:
            return 1000 + loop.time() - start

        runtime = BusyRuntime(clock)
        await scenario(runtime, UsageMonitor(runtime, clock))

    virtual_time.run(timed())


def test_the_first_report_is_measured_over_a_second() -> None:
    async def scenario(_: BusyRuntime, monitor: UsageMonitor) -> None:
        report = await monitor.read()

        assert [report.at, report.window_seconds] == pytest.approx([1001, 1])
        assert report.containers.keys() == {("uid", "main")}
        assert astuple(report.containers["uid", "main"]) == pytest.approx((0.5, 7000))

    run(scenario)


def test_the_next_report_is_measured_since_the_last() -> None:
    async def scenario(_: BusyRuntime, monitor: UsageMonitor) -> None:
        await monitor.read()
        await asyncio.sleep(20)
        report = await monitor.read()

        assert [report.at, report.window_seconds] == pytest.approx([1021, 20])
        assert report.containers["uid", "main"].cpu == pytest.approx(0.5)

    run(scenario)


def test_an_old_measurement_is_not_used() -> None:
    async def scenario(_: BusyRuntime, monitor: UsageMonitor) -> None:
        await monitor.read()
        await asyncio.sleep(3600)

        assert (await monitor.read()).window_seconds == pytest.approx(1)

    run(scenario)


def test_concurrent_requests_share_a_measurement() -> None:
    async def scenario(runtime: BusyRuntime, monitor: UsageMonitor) -> None:
        reports = await asyncio.gather(*(monitor.read() for _ in range(10)))

        assert all(report is reports[0] for report in reports)
        assert runtime.measurements == 2

    run(scenario)


def test_a_failed_measurement_is_repeated() -> None:
    async def scenario(runtime: BusyRuntime, monitor: UsageMonitor) -> None:
        runtime.failing_calls = 1
        with pytest.raises(Unavailable):
            await monitor.read()

        assert (await monitor.read()).containers

    run(scenario)
