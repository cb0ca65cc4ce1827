"""What containers have used, by their cgroups and by their processes, in every isolation mode of this machine."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.node.container_runtime import ResourceLimits, ResourceUsage
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.node.runtime.usage import ProcessTree, usage_of
from tests.eventually import eventually
from tests.node.runtimes import (
    ISOLATION_MODES,
    LIMIT,
    a_runtime,
    shell,
    use_isolation,
    wait_until_ended,
)

#: A child of the container's program allocates 50 MB, and another one uses a second of CPU time.
BUSY = """
python3 -c 'import time; data = bytearray(50_000_000); data[::4096] = bytes(len(data[::4096])); time.sleep(600)' &
python3 -c 'import time
while time.process_time() < 1: pass'
sleep 600
"""
MEBIBYTE = 2**20


@pytest.fixture(params=[*ISOLATION_MODES, "plain"])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_isolation(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(ResourceLimits(), id="processes"),
        pytest.param(ResourceLimits(memory=10**9, cpu=8.0, pids=100), id="cgroups"),
        pytest.param(ResourceLimits(memory=10**9), id="memory cgroup"),
    ],
)
async def test_the_cpu_time_and_the_memory_of_all_processes_of_a_container_are_read(
    runtime: ProcessRuntime, tmp_path: Path, limits: ResourceLimits
) -> None:
    async with asyncio.timeout(LIMIT):
        run = (await runtime.start_container(shell(tmp_path, BUSY, limits=limits))).id

        async def used() -> ResourceUsage | None:
            usage = (await runtime.list_container_stats())[run]
            return usage if usage.cpu_seconds > 1 and usage.memory_bytes > 50_000_000 else None

        usage = await eventually(used, "the programs have used what they use")
        await runtime.signal(run, signal.SIGKILL)
        await wait_until_ended(runtime)

    assert usage.cpu_seconds < 10
    assert usage.memory_bytes < 100 * MEBIBYTE
    assert await runtime.list_container_stats() == {}


def test_files_of_both_versions_of_cgroups_are_read(tmp_path: Path) -> None:
    first, second = tmp_path / "v1", tmp_path / "v2"
    for directory in (first, second):
        directory.mkdir()
    (first / "cpuacct.usage").write_text("2500000000\n")
    (first / "memory.usage_in_bytes").write_text("1000\n")
    (first / "memory.stat").write_text("cache 7\ntotal_inactive_file 300\n")
    (second / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 3\n")
    (second / "memory.current").write_text("1000\n")
    (second / "memory.stat").write_text("inactive_file 1200\n")

    assert usage_of(0, [str(first)], ProcessTree()) == ResourceUsage(2.5, 700)
    assert usage_of(0, [str(second)], ProcessTree()) == ResourceUsage(1.5, 0)


def test_a_process_that_has_ended_uses_nothing() -> None:
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(pid, 0)

    assert usage_of(pid, [], ProcessTree()) == ResourceUsage(0.0, 0)
