"""The contract of RuntimeService, held by the fake runtime, the process runtime, Docker and Podman."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from time import time

import pytest

from launcher.core.pods.exec_session import PodExecOptions
from launcher.node.container_runtime import (
    ContainerRun,
    ExitStatus,
    PodSandboxConfig,
    ResourceUsage,
    RunId,
    RuntimeService,
    StartFailed,
)
from tests.engine.fixtures import ENGINES
from tests.eventually import eventually
from tests.node.contract import UID, ContractRuntimes, a_config
from tests.node.fake_runtime import FakeRuntime

LIMIT = 30.0
ONE = RunId("11111111-2222-4333-8444-555555555555.main.0")
#: The first process of a container ignores signals that it does not handle.
HANDLES_TERM = ("sh", "-c", "trap 'exit 143' TERM; sleep 30 & wait")


@pytest.fixture(params=["fake", "process", *ENGINES])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RuntimeService]:
    if request.param == "fake":
        yield FakeRuntime(time)
        return
    async with ContractRuntimes(request, tmp_path / "data").open() as real:
        yield real


@pytest.fixture
async def real_runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RuntimeService]:
    async with ContractRuntimes(request, tmp_path / "data").open() as real:
        yield real


async def ended(runtime: RuntimeService, run: RunId = ONE) -> ContainerRun:
    """Waits until the end of the run is reported, and returns it."""
    async with asyncio.timeout(LIMIT):
        ends = runtime.get_container_events()
        if runtime.list_containers()[run].ended is None:
            async for one in ends:
                if one.id == run:
                    break
    return runtime.list_containers()[run]


async def test_a_run_ends_with_its_exit_code(runtime: RuntimeService, tmp_path: Path) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sh", "-c", "sleep 0.2; exit 7"))
    done = await ended(runtime)

    assert (run.id, run.started) == (done.id, done.started)
    assert done.ended is not None
    assert done.ended.exit_code == 7
    assert abs(done.ended.finished_at - time()) < LIMIT


async def test_a_repeated_start_starts_nothing(runtime: RuntimeService, tmp_path: Path) -> None:
    first = await runtime.start_container(a_config(tmp_path, "sleep", "30"))
    second = await runtime.start_container(a_config(tmp_path, "sleep", "30"))
    await runtime.signal(ONE, signal.SIGKILL)
    done = await ended(runtime)
    third = await runtime.start_container(a_config(tmp_path, "sleep", "30"))

    assert first == second
    assert third == done


async def test_sigterm_ends_a_run(runtime: RuntimeService, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, *HANDLES_TERM))

    async def terminated() -> ExitStatus | None:
        # Repeated, because the shell may not have executed its trap yet.
        await runtime.signal(ONE, signal.SIGTERM)
        return runtime.list_containers()[ONE].ended

    assert (await eventually(terminated, interval=0.2)).exit_code == 143


async def test_sigkill_ends_a_run_that_ignores_sigterm(runtime: RuntimeService, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, "sh", "-c", "trap '' TERM; sleep 30"))
    await runtime.signal(ONE, signal.SIGTERM)
    await runtime.signal(ONE, signal.SIGKILL)
    done = await ended(runtime)

    assert done.ended is not None
    assert done.ended.exit_code in (137, 143)


async def test_a_missing_program_leaves_no_run(runtime: RuntimeService, tmp_path: Path) -> None:
    with pytest.raises(StartFailed) as refused:
        await runtime.start_container(a_config(tmp_path, "no-such-program"))

    assert refused.value.reason == "StartError"
    assert "executable file not found" in str(refused.value)
    assert ONE not in runtime.list_containers()


async def test_a_command_can_be_executed(runtime: RuntimeService, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, "sleep", "30"))

    good, _ = await runtime.exec_sync(ONE, ["true"], timeout_seconds=LIMIT)
    bad, _ = await runtime.exec_sync(ONE, ["false"], timeout_seconds=LIMIT)
    late, _ = await runtime.exec_sync(ONE, ["sleep", "30"], timeout_seconds=0.2)
    await runtime.signal(ONE, signal.SIGKILL)
    await ended(runtime)
    never, _ = await runtime.exec_sync(ONE, ["true"], timeout_seconds=LIMIT)

    assert (good, bad, late, never) == (0, 1, 124, 126)


async def test_the_use_of_running_containers_is_read(runtime: RuntimeService, tmp_path: Path) -> None:
    if isinstance(runtime, FakeRuntime):
        pytest.skip("its containers use nothing")
    await runtime.start_container(a_config(tmp_path, "sh", "-c", "while :; do :; done"))

    async def used() -> ResourceUsage | None:
        usage = (await runtime.list_container_stats())[ONE]
        return usage if usage.cpu_seconds > 0.3 and usage.memory_bytes > 0 else None

    await eventually(used, "CPU and memory are used")
    await runtime.signal(ONE, signal.SIGKILL)
    await ended(runtime)

    assert await runtime.list_container_stats() == {}


async def test_a_session_returns_the_exit_code_of_its_command(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    await runtime.start_container(a_config(tmp_path, "sleep", "30"))

    codes = []
    for command in ("true", "false"):
        session = await runtime.exec(ONE, PodExecOptions([command]))
        async with asyncio.timeout(LIMIT):
            codes.append((await session.wait(), await session.read("stdout")))
        await session.close()

    assert codes == [(0, b""), (1, b"")]


@pytest.mark.parametrize("real_runtime", ENGINES, indirect=True)
async def test_a_gpu_that_the_engine_cannot_create_is_an_error(
    real_runtime: RuntimeService, tmp_path: Path
) -> None:
    # Podman 5.4 and newer look for it in the CDI specifications of the machine.
    with pytest.raises(StartFailed, match=r"could not select device driver|use Podman 5\.4|CDI"):
        await real_runtime.start_container(a_config(tmp_path, "true", gpus=["0"]))

    assert ONE not in real_runtime.list_containers()


async def test_the_sandbox_of_a_pod_is_run_once_and_removed(runtime: RuntimeService) -> None:
    config = PodSandboxConfig(UID, "host")

    process = await runtime.run_pod_sandbox(config)
    again = await runtime.run_pod_sandbox(config)
    for _ in range(2):
        await runtime.remove_pod_sandbox(UID)

    assert again == process
    await eventually(lambda: process is None or not Path(f"/proc/{process}").exists(), "it has ended")


async def test_a_removed_run_does_not_exist(runtime: RuntimeService, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, "true"))
    await ended(runtime)
    await runtime.remove_container(ONE)
    await runtime.remove_container(ONE)

    assert ONE not in runtime.list_containers()
