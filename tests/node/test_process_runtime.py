"""Containers as processes, in every way that this machine has: the same is promised of all."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.core.errors import Conflict
from launcher.node.container_runtime import ResourceLimits, RunId, StartFailed
from launcher.node.runtime.process_runtime import ProcessRuntime
from tests.node.runtimes import (
    LIMIT,
    WAYS,
    a_runtime,
    an_order,
    ended,
    finished,
    processes_with,
    said,
    shell,
    until,
    use_way,
)

AS_ROOT = os.geteuid() == 0


@pytest.fixture(params=[*WAYS, "plain"] if AS_ROOT else [*WAYS])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_way(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


async def test_a_run_writes_to_its_log_and_ends_with_its_own_exit_code(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    code = await finished(runtime, shell(tmp_path, "echo out; echo err >&2; exit 3"))

    assert code == 3
    assert sorted(said(tmp_path).splitlines()) == ["err", "out"]


async def test_an_end_is_told_once_to_who_waits_for_it(runtime: ProcessRuntime, tmp_path: Path) -> None:
    ends = runtime.exits()

    started = await runtime.start(an_order(tmp_path, "true"))

    async with asyncio.timeout(LIMIT):
        told = await anext(ends)
    assert told.id == started.id
    assert told.ended is not None
    assert told.ended.at >= told.started
    assert not told.ended.is_estimated
    assert runtime.runs()[told.id] == told


async def test_a_second_start_of_the_same_run_starts_nothing(runtime: ProcessRuntime, tmp_path: Path) -> None:
    order = shell(tmp_path, "echo once")
    first = asyncio.create_task(runtime.start(order))
    second = asyncio.create_task(runtime.start(order))
    await asyncio.gather(first, second)
    await ended(runtime)

    again = await runtime.start(order)

    assert again == runtime.runs()[order.id]
    assert said(tmp_path) == "once\n"


async def test_a_run_is_ended_by_sigterm_though_it_has_no_handler(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    run = await runtime.start(an_order(tmp_path, "sleep", "1000"))

    await runtime.signal(run.id, signal.SIGTERM)

    over = await ended(runtime)
    assert over.ended is not None
    assert over.ended.exit_code == 143


async def test_a_trap_runs_and_gives_the_exit_code(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start(
        shell(tmp_path, "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done")
    )
    await until(lambda: "ready" in said(tmp_path))

    await runtime.signal(run.id, signal.SIGTERM)

    over = await ended(runtime)
    assert over.ended is not None
    assert over.ended.exit_code == 7
    assert said(tmp_path).endswith("bye\n")


async def test_nothing_outlives_sigkill(runtime: ProcessRuntime, tmp_path: Path) -> None:
    mark = f"1000.{os.getpid()}1"
    # One in the background, one in a session of its own, and one that the first process has lost.
    script = f"sleep {mark} & setsid sleep {mark} & (setsid sleep {mark} &) ; echo ready; wait"
    run = await runtime.start(shell(tmp_path, script))
    await until(lambda: len(processes_with(f"sleep\0{mark}")) == 3)

    await runtime.signal(run.id, signal.SIGKILL)

    over = await ended(runtime)
    assert over.ended is not None
    assert over.ended.exit_code == 137
    assert not over.ended.is_estimated
    assert not processes_with(f"sleep\0{mark}")


async def test_what_a_run_leaves_behind_ends_with_it(runtime: ProcessRuntime, tmp_path: Path) -> None:
    mark = f"1000.{os.getpid()}2"

    code = await finished(runtime, shell(tmp_path, f"(setsid sleep {mark} &); sleep {mark} & exit 4"))

    assert code == 4
    assert not processes_with(f"sleep\0{mark}")


@pytest.mark.parametrize(
    ("argv", "directory", "reason", "message"),
    [
        pytest.param(
            ["nonsense"],
            "/",
            "StartError",
            'exec: "nonsense": executable file not found in $PATH',
            id="there is no such command",
        ),
        pytest.param(
            ["/no/such"], "/", "StartError", "no such file or directory", id="there is no such path"
        ),
        pytest.param(["/etc/passwd"], "/", "StartError", "permission denied", id="it is no program"),
        pytest.param(
            ["true"],
            "/no/such",
            "CreateContainerError",
            'chdir to cwd ("/no/such") failed: no such file or directory',
            id="there is no such directory",
        ),
    ],
)
async def test_what_cannot_be_started_is_told_and_leaves_nothing(
    runtime: ProcessRuntime, tmp_path: Path, argv: list[str], directory: str, reason: str, message: str
) -> None:
    with pytest.raises(StartFailed, match=re.escape(message)) as told:
        await runtime.start(an_order(tmp_path, *argv, directory=directory))

    assert told.value.reason == reason
    assert not runtime.runs()
    assert not list((tmp_path / "runs").iterdir())
    assert await finished(runtime, an_order(tmp_path, "true")) == 0


async def test_the_environment_is_what_was_ordered(runtime: ProcessRuntime, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "A": "1 2", "B": "ü\udcff"}

    await finished(runtime, an_order(tmp_path, "env", environment=environment))

    lines = (tmp_path / "logs" / "pod.main.0.log").read_bytes().splitlines()
    found = {line[40:] for line in lines}
    # bubblewrap adds where it is.
    assert found - {b"PWD=/"} == {b"PATH=/usr/bin:/bin", b"A=1 2", b"B=\xc3\xbc\xff"}


async def test_a_run_has_no_open_files_but_its_own(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await finished(runtime, an_order(tmp_path, "ls", "/proc/self/fd"))

    # The fourth is the directory that is being listed.
    assert said(tmp_path).split() == ["0", "1", "2", "3"]


async def test_a_run_blocks_and_ignores_no_signal(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await finished(runtime, an_order(tmp_path, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))

    _, blocked, _, ignored = said(tmp_path).split()
    # Two signals belong to the C library, which ignores them in what it spawns and lets nobody change that.
    assert [int(blocked, 16), int(ignored, 16) & ~(3 << 31)] == [0, 0]


async def test_a_run_may_open_its_output_again(runtime: ProcessRuntime, tmp_path: Path) -> None:
    code = await finished(runtime, shell(tmp_path, "echo out >/dev/stdout; echo err >/dev/stderr; cat"))

    assert code == 0
    assert sorted(said(tmp_path).split()) == ["err", "out"]


async def test_a_command_runs_inside_the_container(runtime: ProcessRuntime, tmp_path: Path) -> None:
    order = shell(
        tmp_path, "sleep 1000", environment={"PATH": "/usr/bin:/bin", "MINE": "yes"}, directory="/usr"
    )
    run = await runtime.start(order)

    answer = await runtime.execute(run.id, ["sh", "-c", 'echo "$MINE"; pwd; exit 9'], within=LIMIT)

    assert answer == (9, b"yes\n/usr\n")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        pytest.param(["sleep", "1000"], 124, id="takes too long"),
        pytest.param(["nonsense"], 127, id="is not there"),
        pytest.param(["/etc/passwd"], 126, id="is no program"),
        pytest.param(["sh", "-c", "kill -9 $$"], 137, id="is killed"),
    ],
)
async def test_a_command_inside_that(
    runtime: ProcessRuntime, tmp_path: Path, argv: list[str], code: int
) -> None:
    run = await runtime.start(an_order(tmp_path, "sleep", "1000"))

    answer = await runtime.execute(run.id, argv, within=0.3 if code == 124 else LIMIT)

    assert answer[0] == code


async def test_of_a_command_inside_the_first_output_is_kept(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start(an_order(tmp_path, "sleep", "1000"))

    code, output = await runtime.execute(run.id, ["sh", "-c", "head -c 1000000 /dev/zero"], within=LIMIT)

    assert (code, output) == (0, bytes(10 * 1024))


async def test_nothing_can_be_executed_in_a_run_that_is_over(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await finished(runtime, an_order(tmp_path, "true"))

    code, _ = await runtime.execute(RunId("pod.main.0"), ["true"], within=LIMIT)

    assert code == 126


async def test_a_run_that_is_over_can_be_forgotten_and_another_cannot(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    run = await runtime.start(an_order(tmp_path, "sleep", "1000"))
    with pytest.raises(Conflict, match="still runs"):
        await runtime.remove(run.id)
    await runtime.signal(run.id, signal.SIGKILL)
    await ended(runtime)

    await runtime.remove(run.id)

    assert not runtime.runs()
    assert not list((tmp_path / "runs").iterdir())
    assert (tmp_path / "logs" / "pod.main.0.log").exists()
    await runtime.remove(run.id)
    await runtime.signal(run.id, signal.SIGKILL)


async def test_many_runs_at_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    orders = [shell(tmp_path, f"exit {number}", run=f"pod.main.{number}") for number in range(40)]

    codes = await asyncio.gather(*(finished(runtime, order) for order in orders))

    assert codes == list(range(40))


async def test_much_output_is_not_lost(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await finished(runtime, shell(tmp_path, "seq 100000; printf end"))

    assert said(tmp_path) == "".join(f"{number}\n" for number in range(1, 100001)) + "end"


async def test_a_run_is_the_user_that_was_ordered(tmp_path: Path) -> None:
    user, group, groups = (1234, 2345, [3456]) if AS_ROOT else (os.geteuid(), os.getegid(), [])
    script = "echo $(id -u) $(id -g); echo again >/dev/stdout"
    async with a_runtime(tmp_path) as runtime:
        await finished(runtime, shell(tmp_path, script, user=user, group=group, groups=groups))

    assert said(tmp_path) == f"{user} {group}\nagain\n"


async def test_further_groups_are_those_that_were_ordered(tmp_path: Path) -> None:
    groups = [3456, 4567] if AS_ROOT else [os.getegid()]
    async with a_runtime(tmp_path) as runtime:
        await finished(runtime, an_order(tmp_path, "id", "-G", group=os.getegid(), groups=groups))

    assert set(said(tmp_path).split()) == {str(os.getegid()), *map(str, groups)}


async def test_another_user_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_runtime(tmp_path) as runtime:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)

        with pytest.raises(StartFailed, match="has to be started as root") as told:
            await runtime.start(an_order(tmp_path, "true", user=1234))

        assert told.value.reason == "CreateContainerConfigError"


@pytest.mark.skipif("bwrap" not in WAYS, reason="bubblewrap is not installed")
async def test_bubblewrap_cannot_become_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_way("bwrap", tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        with pytest.raises(StartFailed, match="runAsUser"):
            await runtime.start(an_order(tmp_path, "true", user=os.geteuid()))


@pytest.mark.parametrize("way", WAYS)
async def test_a_run_that_uses_too_much_memory_is_told_so_where_that_can_be_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    python = sys.executable
    use_way(way, tmp_path, monkeypatch)
    script = "x = bytearray(300_000_000); x[::4096] = bytes(len(x[::4096])); raise SystemExit(5)"
    order = an_order(tmp_path, python, "-S", "-c", script, limits=ResourceLimits(memory=50_000_000, cpu=0.5))
    async with a_runtime(tmp_path) as runtime:
        await runtime.start(order)
        over = await ended(runtime)
        limited = not any(
            sentence.startswith("Memory limits") for sentence in runtime.unsupported_features(order)
        )

    assert over.ended is not None
    told = (over.ended.exit_code, over.ended.out_of_memory)
    assert told == ((137, True) if limited else (5, False))
    facts = os.stat(tmp_path)
    ours = f"framework-launcher-{facts.st_dev:x}-{facts.st_ino:x}"
    assert not [where for where, _, _ in os.walk("/sys/fs/cgroup") if where.endswith(ours)]


async def test_a_child_that_is_killed_for_memory_is_counted_while_the_container_goes_on(
    tmp_path: Path,
) -> None:
    script = "x = bytearray(300_000_000); x[::4096] = bytes(len(x[::4096]))"
    order = shell(
        tmp_path,
        f"{sys.executable} -S -c '{script}'; exec sleep 60",
        limits=ResourceLimits(memory=50_000_000),
    )
    async with a_runtime(tmp_path) as runtime:
        if any(sentence.startswith("Memory limits") for sentence in runtime.unsupported_features(order)):
            pytest.skip("memory limits cannot be set here")
        run = await runtime.start(order)
        await until(lambda: runtime.runs()[run.id].oom_kills)
        await runtime.signal(run.id, 9)
        over = await ended(runtime)

    assert over.oom_kills == 1
