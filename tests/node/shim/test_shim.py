"""The shim: it is small, continues without the launcher, and loses nothing when it is killed itself."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

import launcher
from launcher.core.errors import Unavailable
from launcher.node.container_runtime import ContainerConfig, RunId
from launcher.node.runtime.process_runtime import ProcessRuntime, ShimOptions
from launcher.node.shim import run_records
from launcher.node.shim.release import release
from tests.eventually import eventually
from tests.forked_process import ForkedProcess
from tests.node.runtimes import (
    ISOLATION_MODES,
    LIMIT,
    a_config,
    a_runtime,
    kill_shim,
    log_path,
    log_text,
    run_to_end,
    shell,
    shim_pid,
    use_isolation,
    wait_until_ended,
)

ROOT = Path(launcher.__file__).parent.parent


@pytest.fixture(params=[*ISOLATION_MODES, "plain"])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_isolation(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_the_shim_imports_only_its_own_package_and_no_large_modules() -> None:
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); import launcher.node.shim.main; print(*sys.modules)"
    )

    modules = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT
    ).stdout.split()

    ours = {name for name in modules if name.startswith("launcher.")}
    assert {name for name in ours if not name.startswith("launcher.node.shim")} == {"launcher.node"}
    assert not {"asyncio", "dataclasses", "logging", "subprocess", "typing"} & set(modules)


async def test_the_shim_uses_less_than_15_mib_of_memory(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        await run_to_end(runtime, a_config(tmp_path, "true"))

        assert resident_bytes(shim_pid(runtime)) < 15 * 1024 * 1024


async def test_the_shim_is_detached_from_the_launchers_terminal(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        pid = shim_pid(runtime)

        assert os.getsid(pid) == os.getpgid(pid) == pid
        assert os.readlink(f"/proc/{pid}/cwd") == "/"


async def test_the_shim_exits_when_there_are_no_containers_and_no_launcher(tmp_path: Path) -> None:
    runtime = await ProcessRuntime.open(tmp_path, images={}, clock=time.time, options=ShimOptions(linger=0.1))
    await run_to_end(runtime, a_config(tmp_path, "true"))
    pid = shim_pid(runtime)

    await runtime.close(stop_shim=False)

    await eventually(lambda: run_records.start_ticks(pid) is None)
    assert "keeper.sock" not in os.listdir(tmp_path)


async def test_the_shim_continues_while_a_container_runs(tmp_path: Path) -> None:
    runtime = await ProcessRuntime.open(tmp_path, images={}, clock=time.time, options=ShimOptions(linger=0.0))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    await runtime.start_container(shell(tmp_path, f"cat {fifo}; exit 6"))
    pid = shim_pid(runtime)
    await runtime.close(stop_shim=False)
    # Longer than one turn of its event loop.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(eventually(lambda: run_records.start_ticks(pid) is None), 1.5)

    fifo.write_text("go on\n")

    async with a_runtime(tmp_path) as again:
        result = await wait_until_ended(again)
    assert result.ended is not None
    assert result.ended.exit_code == 6
    assert log_text(tmp_path) == "go on\n"


async def test_a_data_directory_may_have_a_long_path(tmp_path: Path) -> None:
    data = tmp_path / ("d" * 100) / ("e" * 100)

    async with a_runtime(data) as runtime:
        assert await run_to_end(runtime, a_config(data, "true")) == 0


async def test_a_data_directory_has_one_shim(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as first:
        others = await asyncio.gather(
            *(ProcessRuntime.open(tmp_path, images={}, clock=time.time) for _ in range(3))
        )
        shims = {shim_pid(runtime) for runtime in (first, *others)}
        for other in others:
            await other.close(stop_shim=False)

    assert len(shims) == 1


async def test_runs_of_a_killed_shim_continue_and_keep_their_output_and_exit_codes(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"echo before; read line <{fifo}; echo $line; seq 50000; exit 5"
    await runtime.start_container(shell(tmp_path, script))
    await eventually(lambda: "before" in log_text(tmp_path))

    await kill_shim(runtime)
    await asyncio.to_thread(fifo.write_text, "after\n")

    result = await wait_until_ended(runtime)
    assert result.ended is not None
    assert (result.ended.exit_code, result.ended.is_unknown) == (5, False)
    assert log_text(tmp_path) == "before\nafter\n" + "".join(f"{number}\n" for number in range(1, 50001))


async def test_a_shim_of_another_release_is_replaced_and_its_runs_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "gate")
    first = await ProcessRuntime.open(tmp_path, images={}, clock=time.time)
    await first.start_container(
        shell(tmp_path, "echo before; read line < gate; exit 5", directory=str(tmp_path))
    )
    old = shim_pid(first)
    await first.close(stop_shim=False)
    releases = ["a newer one"]
    monkeypatch.setattr(
        "launcher.node.runtime.process_runtime.release", lambda: releases.pop() if releases else release()
    )

    async with a_runtime(tmp_path) as runtime:
        assert shim_pid(runtime) != old
        (tmp_path / "gate").write_text("go\n")
        result = await wait_until_ended(runtime)

    assert result.ended is not None
    assert result.ended.exit_code == 5
    assert log_text(tmp_path) == "before\n"


async def test_a_run_of_a_killed_shim_can_be_signalled(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sleep", "1000"))
    await kill_shim(runtime)

    await runtime.signal(run.id, signal.SIGTERM)

    result = await wait_until_ended(runtime)
    assert result.ended is not None
    assert (result.ended.exit_code, result.ended.is_unknown) == (143, False)


# The mode "user" runs each shim as a new user, which has no access to older runs.
@pytest.mark.parametrize(
    "isolation", [*(isolation for isolation in ISOLATION_MODES if isolation != "user"), "plain"]
)
async def test_a_command_is_executed_in_a_run_of_a_killed_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    use_isolation(isolation, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        run = await runtime.start_container(a_config(tmp_path, "sleep", "1000"))
        await kill_shim(runtime)

        answer = await runtime.exec_sync(run.id, ["echo", "hello"], timeout_seconds=LIMIT)

    assert answer == (0, b"hello\n")


@pytest.mark.parametrize("isolation", ["unshare", "plain"])
async def test_a_run_that_ends_without_a_shim_has_its_exit_code_and_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    use_isolation(isolation, tmp_path, monkeypatch)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    runtime = await ProcessRuntime.open(tmp_path, images={}, clock=time.time)
    script = f"echo first; read line <{fifo}; seq 1 5000; echo last words; echo oops >&2; exit 9"
    await runtime.start_container(shell(tmp_path, script))
    await eventually(lambda: log_path(tmp_path).stat().st_size > 0)
    init = json.loads((tmp_path / "runs" / "pod.main.0" / "run.json").read_text())["pid"]
    await runtime.close(stop_shim=False)
    os.kill(shim_pid(runtime), signal.SIGKILL)
    # Until then it holds the lock by which the init recognises that a shim reads the output.
    await eventually(lambda: run_records.start_ticks(shim_pid(runtime)) is None)
    await asyncio.to_thread(fifo.write_text, "go\n")
    await eventually(lambda: run_records.start_ticks(init) is None)

    async with a_runtime(tmp_path) as again:
        run = again.list_containers()[RunId("pod.main.0")]

    assert run.ended is not None
    assert (run.ended.exit_code, run.ended.is_unknown) == (9, False)
    assert log_text(tmp_path).split() == ["first", *map(str, range(1, 5001)), "last", "words", "oops"]


async def test_an_exit_that_was_not_observed_is_marked_as_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_isolation("unshare", tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        await runtime.start_container(a_config(tmp_path, "sleep", "1000"))
        init = json.loads((tmp_path / "runs" / "pod.main.0" / "run.json").read_text())["pid"]
        os.kill(shim_pid(runtime), signal.SIGKILL)
        os.kill(init, signal.SIGKILL)

        result = await wait_until_ended(runtime)

    assert result.ended is not None
    assert (result.ended.exit_code, result.ended.is_unknown) == (137, True)


@pytest.mark.parametrize("field", ["born", "boot"])
async def test_another_process_with_the_pid_of_a_run_is_not_signalled(tmp_path: Path, field: str) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    write_record(tmp_path, other.pid, run_records.BEGAN, **{field: 12345})

    async with a_runtime(tmp_path) as runtime:
        run = runtime.list_containers()[RunId("pod.main.0")]
        await runtime.signal(run.id, signal.SIGKILL)

    assert run.ended is not None
    assert (run.ended.exit_code, run.ended.is_unknown) == (137, True)
    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_a_run_whose_shim_was_killed_before_its_release_does_not_exist(tmp_path: Path) -> None:
    """Its init has exited without starting the program."""
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    write_record(tmp_path, ended.pid, b'{"exit-code": 128, "at": 1.0}\n')

    async with a_runtime(tmp_path) as runtime:
        assert not runtime.list_containers()
        assert await run_to_end(runtime, shell(tmp_path, "exit 3")) == 3


def write_record(data: Path, pid: int, end: bytes, **overrides: object) -> None:
    """Writes the record of a run of that process, with *end* as the end file of its init."""
    folder = data / "runs" / "pod.main.0"
    folder.mkdir(parents=True)
    (folder / run_records.END).write_bytes(end)
    record = {
        "order": {"log": str(log_path(data))},
        "way": "unshare",
        "pid": pid,
        "born": run_records.start_ticks(pid),
        "boot": run_records.boot_id(),
        "group": pid,
        "kill": pid,
        "cgroups": [],
        "started": 1.0,
    }
    run_records.write(str(folder), run_records.RECORD, record | overrides)


async def test_a_run_with_a_corrupted_record_does_not_exist(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "pod.main.0"
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(b"\0\0\0")

    async with a_runtime(tmp_path) as runtime:
        assert not runtime.list_containers()
        assert await run_to_end(runtime, a_config(tmp_path, "true")) == 0


async def test_the_next_shim_recovers_runs_that_have_ended(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        await run_to_end(runtime, shell(tmp_path, "exit 8"))
        before = dict(runtime.list_containers())

    async with a_runtime(tmp_path) as again:
        assert dict(again.list_containers()) == before


@pytest.mark.parametrize("seed", range(4))
async def test_a_launcher_killed_at_any_time_loses_no_run_and_starts_none_twice(
    tmp_path: Path, seed: int
) -> None:
    generator, number = random.Random(seed), 12
    for _ in range(4):
        with ForkedProcess(
            "tests.node.killed_launcher",
            *(str(tmp_path), str(number), str(generator.uniform(0.2, 0.6))),
            errors=tmp_path / "errors",
            directory=ROOT,
            environment=os.environ,
        ) as killed:
            assert await asyncio.to_thread(killed.wait, LIMIT) == -signal.SIGKILL

    async with a_runtime(tmp_path) as runtime:
        await _all_run_once(runtime, tmp_path, number)


@pytest.mark.parametrize("isolation", [*ISOLATION_MODES, "plain"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_shim_killed_at_any_time_loses_no_run_and_starts_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str, seed: int
) -> None:
    use_isolation(isolation, tmp_path, monkeypatch)
    generator = random.Random(seed)
    async with a_runtime(tmp_path) as runtime:
        starting = asyncio.create_task(_all_run_once(runtime, tmp_path, 12))
        for _ in range(4):
            await asyncio.sleep(generator.uniform(0.01, 0.15))
            with suppress(ProcessLookupError):
                os.kill(shim_pid(runtime), signal.SIGKILL)

        await starting


async def _all_run_once(runtime: ProcessRuntime, data: Path, number: int) -> None:
    """Starts the runs, each repeatedly, and checks that each ran once."""
    for run in range(number):
        await _started(runtime, shell(data, f"echo {run} >>{data}/started; exit {run}", run=f"run.{run}"))
        await asyncio.sleep(0.03)
    for run in range(number):
        result = await wait_until_ended(runtime, f"run.{run}")
        assert result.ended is not None
        assert (result.ended.exit_code, result.ended.is_unknown) == (run, False)
    assert sorted((data / "started").read_text().split(), key=int) == [str(run) for run in range(number)]


async def _started(runtime: ProcessRuntime, config: ContainerConfig) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            with suppress(Unavailable):
                await runtime.start_container(config)
                return
            await asyncio.sleep(0.01)
