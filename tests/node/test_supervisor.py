"""The keeper of the containers: small, alone, outliving the launcher, and nothing is lost when it is killed itself."""

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
from tests.node.runtimes import (
    LIMIT,
    WAYS,
    a_runtime,
    an_order,
    ended,
    finished,
    keeper_of,
    kill_keeper,
    log_of,
    said,
    shell,
    until,
    use_way,
)

ROOT = Path(launcher.__file__).parent.parent


@pytest.fixture(params=[*WAYS, "plain"])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_way(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


def memory_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_it_imports_nothing_of_ours_but_itself_and_nothing_heavy() -> None:
    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); import launcher.node.shim.main; print(*sys.modules)"
    )

    modules = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT
    ).stdout.split()

    ours = {name for name in modules if name.startswith("launcher.")}
    assert {name for name in ours if not name.startswith("launcher.node.shim")} == {"launcher.node"}
    assert not {"asyncio", "dataclasses", "logging", "subprocess", "typing"} & set(modules)


async def test_it_is_small(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        await finished(runtime, an_order(tmp_path, "true"))

        assert memory_of(keeper_of(runtime)) < 15 * 1024 * 1024


async def test_it_is_out_of_reach_of_the_launchers_terminal(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        pid = keeper_of(runtime)

        assert os.getsid(pid) == os.getpgid(pid) == pid
        assert os.readlink(f"/proc/{pid}/cwd") == "/"


async def test_it_ends_when_nothing_runs_and_nobody_is_there(tmp_path: Path) -> None:
    runtime = await ProcessRuntime.open(tmp_path, images={}, clock=time.time, keeping=ShimOptions(linger=0.1))
    await finished(runtime, an_order(tmp_path, "true"))
    pid = keeper_of(runtime)

    await runtime.close(stop_keeper=False)

    await until(lambda: run_records.born(pid) is None)
    assert "keeper.sock" not in os.listdir(tmp_path)


async def test_it_stays_while_something_runs(tmp_path: Path) -> None:
    runtime = await ProcessRuntime.open(tmp_path, images={}, clock=time.time, keeping=ShimOptions(linger=0.0))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    await runtime.start(shell(tmp_path, f"cat {fifo}; exit 6"))
    pid = keeper_of(runtime)
    await runtime.close(stop_keeper=False)
    # Longer than its loop takes to look.
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(until(lambda: run_records.born(pid) is None), 1.5)

    fifo.write_text("go on\n")

    async with a_runtime(tmp_path) as again:
        over = await ended(again)
    assert over.ended is not None
    assert over.ended.exit_code == 6
    assert said(tmp_path) == "go on\n"


async def test_a_data_directory_may_have_a_long_path(tmp_path: Path) -> None:
    data = tmp_path / ("d" * 100) / ("e" * 100)

    async with a_runtime(data) as runtime:
        assert await finished(runtime, an_order(data, "true")) == 0


async def test_there_is_one_for_a_data_directory(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as first:
        others = await asyncio.gather(
            *(ProcessRuntime.open(tmp_path, images={}, clock=time.time) for _ in range(3))
        )
        keepers = {keeper_of(runtime) for runtime in (first, *others)}
        for other in others:
            await other.close(stop_keeper=False)

    assert len(keepers) == 1


async def test_when_it_is_killed_its_runs_go_on_and_their_output_and_exit_codes_are_not_lost(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"echo before; read line <{fifo}; echo $line; seq 50000; exit 5"
    await runtime.start(shell(tmp_path, script))
    await until(lambda: "before" in said(tmp_path))

    await kill_keeper(runtime)
    await asyncio.to_thread(fifo.write_text, "after\n")

    over = await ended(runtime)
    assert over.ended is not None
    assert (over.ended.exit_code, over.ended.is_estimated) == (5, False)
    assert said(tmp_path) == "before\nafter\n" + "".join(f"{number}\n" for number in range(1, 50001))


async def test_one_of_another_release_is_replaced_and_its_runs_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "gate")
    first = await ProcessRuntime.open(tmp_path, images={}, clock=time.time)
    await first.start(shell(tmp_path, "echo before; read line < gate; exit 5", directory=str(tmp_path)))
    old = keeper_of(first)
    await first.close(stop_keeper=False)
    releases = ["a newer one"]
    monkeypatch.setattr(
        "launcher.node.runtime.process_runtime.release", lambda: releases.pop() if releases else release()
    )

    async with a_runtime(tmp_path) as runtime:
        assert keeper_of(runtime) != old
        (tmp_path / "gate").write_text("go\n")
        over = await ended(runtime)

    assert over.ended is not None
    assert over.ended.exit_code == 5
    assert said(tmp_path) == "before\n"


async def test_a_run_of_a_killed_keeper_can_be_signalled(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start(an_order(tmp_path, "sleep", "1000"))
    await kill_keeper(runtime)

    await runtime.signal(run.id, signal.SIGTERM)

    over = await ended(runtime)
    assert over.ended is not None
    assert (over.ended.exit_code, over.ended.is_estimated) == (143, False)


# The normal user of the tests is another one each time a keeper is started, and so a stranger to older runs.
@pytest.mark.parametrize("way", [*(way for way in WAYS if way != "user"), "plain"])
async def test_a_command_runs_inside_a_run_of_a_killed_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    use_way(way, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        run = await runtime.start(an_order(tmp_path, "sleep", "1000"))
        await kill_keeper(runtime)

        answer = await runtime.execute(run.id, ["echo", "hello"], within=LIMIT)

    assert answer == (0, b"hello\n")


@pytest.mark.parametrize("way", ["unshare", "plain"])
async def test_a_run_that_ends_while_there_is_no_keeper_has_its_exit_code_and_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    use_way(way, tmp_path, monkeypatch)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    runtime = await ProcessRuntime.open(tmp_path, images={}, clock=time.time)
    script = f"echo first; read line <{fifo}; seq 1 5000; echo last words; echo oops >&2; exit 9"
    await runtime.start(shell(tmp_path, script))
    await until(lambda: log_of(tmp_path).stat().st_size)
    init = json.loads((tmp_path / "runs" / "pod.main.0" / "run.json").read_text())["pid"]
    await runtime.close(stop_keeper=False)
    os.kill(keeper_of(runtime), signal.SIGKILL)
    await asyncio.to_thread(fifo.write_text, "go\n")
    await until(lambda: run_records.born(init) is None)

    async with a_runtime(tmp_path) as again:
        run = again.runs()[RunId("pod.main.0")]

    assert run.ended is not None
    assert (run.ended.exit_code, run.ended.is_estimated) == (9, False)
    assert said(tmp_path).split() == ["first", *map(str, range(1, 5001)), "last", "words", "oops"]


async def test_an_end_that_nobody_has_seen_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_way("unshare", tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        await runtime.start(an_order(tmp_path, "sleep", "1000"))
        init = json.loads((tmp_path / "runs" / "pod.main.0" / "run.json").read_text())["pid"]
        os.kill(keeper_of(runtime), signal.SIGKILL)
        os.kill(init, signal.SIGKILL)

        over = await ended(runtime)

    assert over.ended is not None
    assert (over.ended.exit_code, over.ended.is_estimated) == (137, True)


@pytest.mark.parametrize("wrong", ["born", "boot"])
async def test_a_process_that_only_has_the_same_number_is_left_alone(tmp_path: Path, wrong: str) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    write_record(tmp_path, other.pid, run_records.BEGAN, **{wrong: 12345})

    async with a_runtime(tmp_path) as runtime:
        run = runtime.runs()[RunId("pod.main.0")]
        await runtime.signal(run.id, signal.SIGKILL)

    assert run.ended is not None
    assert (run.ended.exit_code, run.ended.is_estimated) == (137, True)
    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_a_run_whose_keeper_was_killed_before_it_was_let_go_has_never_been(tmp_path: Path) -> None:
    """Then its process has ended by itself, and has never become the program."""
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    write_record(tmp_path, gone.pid, b'{"exit-code": 128, "at": 1.0}\n')

    async with a_runtime(tmp_path) as runtime:
        assert not runtime.runs()
        assert await finished(runtime, shell(tmp_path, "exit 3")) == 3


def write_record(data: Path, pid: int, said: bytes, **more: object) -> None:
    """A run of that process, as an earlier keeper has left it; *said* by its init."""
    folder = data / "runs" / "pod.main.0"
    folder.mkdir(parents=True)
    (folder / run_records.LAST_WORD).write_bytes(said)
    record = {
        "order": {"log": str(log_of(data))},
        "way": "unshare",
        "pid": pid,
        "born": run_records.born(pid),
        "boot": run_records.boot(),
        "group": pid,
        "kill": pid,
        "cgroups": [],
        "started": 1.0,
    }
    run_records.write(str(folder), run_records.RECORD, record | more)


async def test_a_run_whose_record_is_broken_is_not_known(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "pod.main.0"
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(b"\0\0\0")

    async with a_runtime(tmp_path) as runtime:
        assert not runtime.runs()
        assert await finished(runtime, an_order(tmp_path, "true")) == 0


async def test_runs_that_are_over_are_known_to_the_next_keeper(tmp_path: Path) -> None:
    async with a_runtime(tmp_path) as runtime:
        await finished(runtime, shell(tmp_path, "exit 8"))
        before = dict(runtime.runs())

    async with a_runtime(tmp_path) as again:
        assert dict(again.runs()) == before


@pytest.mark.parametrize("seed", range(4))
async def test_a_launcher_killed_at_any_moment_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    chance, number = random.Random(seed), 12
    for _ in range(4):
        killed = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.node.killed_launcher", str(tmp_path), str(number), str(chance.uniform(0.2, 0.6))),
            cwd=ROOT,
        )
        async with asyncio.timeout(LIMIT):
            assert await killed.wait() == -signal.SIGKILL

    async with a_runtime(tmp_path) as runtime:
        await _all_run_once(runtime, tmp_path, number)


@pytest.mark.parametrize("way", [*WAYS, "plain"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_keeper_killed_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, seed: int
) -> None:
    use_way(way, tmp_path, monkeypatch)
    chance = random.Random(seed)
    async with a_runtime(tmp_path) as runtime:
        starting = asyncio.create_task(_all_run_once(runtime, tmp_path, 12))
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0.01, 0.15))
            with suppress(ProcessLookupError):
                os.kill(keeper_of(runtime), signal.SIGKILL)

        await starting


async def _all_run_once(runtime: ProcessRuntime, data: Path, number: int) -> None:
    """However often each run is asked for."""
    for run in range(number):
        await _started(runtime, shell(data, f"echo {run} >>{data}/started; exit {run}", run=f"run.{run}"))
        await asyncio.sleep(0.03)
    for run in range(number):
        over = await ended(runtime, f"run.{run}")
        assert over.ended is not None
        assert (over.ended.exit_code, over.ended.is_estimated) == (run, False)
    assert sorted((data / "started").read_text().split(), key=int) == [str(run) for run in range(number)]


async def _started(runtime: ProcessRuntime, order: ContainerConfig) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            with suppress(Unavailable):
                await runtime.start(order)
                return
            await asyncio.sleep(0.01)
