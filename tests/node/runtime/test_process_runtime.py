"""The process runtime, with every isolation mode of this machine."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.core.errors import Conflict
from launcher.node.container_runtime import OOM_KILLED, ResourceLimits, RunId, StartFailed
from launcher.node.runtime.process_runtime import ProcessRuntime
from tests.eventually import eventually
from tests.node.runtimes import (
    ISOLATION_MODES,
    LIMIT,
    a_config,
    a_runtime,
    log_text,
    pids_matching,
    run_to_end,
    shell,
    use_isolation,
    wait_until_ended,
)

AS_ROOT = os.geteuid() == 0


@pytest.fixture(params=[*ISOLATION_MODES, "plain"] if AS_ROOT else [*ISOLATION_MODES])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_isolation(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


async def test_a_run_writes_to_its_log_and_ends_with_its_own_exit_code(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    code = await run_to_end(runtime, shell(tmp_path, "echo out; echo err >&2; exit 3"))

    assert code == 3
    assert sorted(log_text(tmp_path).splitlines()) == ["err", "out"]


async def test_an_exit_is_reported_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    ends = runtime.get_container_events()

    started = await runtime.start_container(a_config(tmp_path, "true"))

    async with asyncio.timeout(LIMIT):
        ended_run = await anext(ends)
    assert ended_run.id == started.id
    assert ended_run.ended is not None
    assert ended_run.ended.finished_at >= ended_run.started
    assert not ended_run.ended.is_unknown
    assert runtime.list_containers()[ended_run.id] == ended_run


async def test_starting_a_run_twice_starts_it_once(runtime: ProcessRuntime, tmp_path: Path) -> None:
    config = shell(tmp_path, "echo once")
    first = asyncio.create_task(runtime.start_container(config))
    second = asyncio.create_task(runtime.start_container(config))
    await asyncio.gather(first, second)
    await wait_until_ended(runtime)

    again = await runtime.start_container(config)

    assert again == runtime.list_containers()[config.id]
    assert log_text(tmp_path) == "once\n"


async def test_sigterm_ends_a_run_without_a_handler(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sleep", "1000"))

    await runtime.signal(run.id, signal.SIGTERM)

    result = await wait_until_ended(runtime)
    assert result.ended is not None
    assert result.ended.exit_code == 143


async def test_a_trap_handles_sigterm_and_sets_the_exit_code(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start_container(
        shell(tmp_path, "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done")
    )
    await eventually(lambda: "ready" in log_text(tmp_path))

    await runtime.signal(run.id, signal.SIGTERM)

    result = await wait_until_ended(runtime)
    assert result.ended is not None
    assert result.ended.exit_code == 7
    assert log_text(tmp_path).endswith("bye\n")


async def test_sigkill_ends_all_processes_of_a_run(runtime: ProcessRuntime, tmp_path: Path) -> None:
    mark = f"1000.{os.getpid()}1"
    # One in the background, one in its own session, and an orphan.
    script = f"sleep {mark} & setsid sleep {mark} & (setsid sleep {mark} &) ; echo ready; wait"
    run = await runtime.start_container(shell(tmp_path, script))
    await eventually(lambda: len(pids_matching(f"sleep\0{mark}")) == 3)

    await runtime.signal(run.id, signal.SIGKILL)

    result = await wait_until_ended(runtime)
    assert result.ended is not None
    assert result.ended.exit_code == 137
    assert not result.ended.is_unknown
    assert not pids_matching(f"sleep\0{mark}")


async def test_background_processes_end_with_their_run(runtime: ProcessRuntime, tmp_path: Path) -> None:
    mark = f"1000.{os.getpid()}2"

    code = await run_to_end(runtime, shell(tmp_path, f"(setsid sleep {mark} &); sleep {mark} & exit 4"))

    assert code == 4
    assert not pids_matching(f"sleep\0{mark}")


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
        pytest.param(["/etc/passwd"], "/", "StartError", "permission denied", id="it is not a program"),
        pytest.param(
            ["true"],
            "/no/such",
            "CreateContainerError",
            'chdir to cwd ("/no/such") failed: no such file or directory',
            id="there is no such directory",
        ),
    ],
)
async def test_a_failed_start_is_reported_and_leaves_no_run(
    runtime: ProcessRuntime, tmp_path: Path, argv: list[str], directory: str, reason: str, message: str
) -> None:
    with pytest.raises(StartFailed, match=re.escape(message)) as error:
        await runtime.start_container(a_config(tmp_path, *argv, directory=directory))

    assert error.value.reason == reason
    assert not runtime.list_containers()
    assert not list((tmp_path / "runs").iterdir())
    assert await run_to_end(runtime, a_config(tmp_path, "true")) == 0


async def test_a_run_has_the_configured_environment(runtime: ProcessRuntime, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "A": "1 2", "B": "ü\udcff"}

    await run_to_end(runtime, a_config(tmp_path, "env", environment=environment))

    lines = (tmp_path / "logs" / "pod.main.0.log").read_bytes().splitlines()
    found = {line[40:] for line in lines}
    # bubblewrap adds PWD.
    assert found - {b"PWD=/"} == {b"PATH=/usr/bin:/bin", b"A=1 2", b"B=\xc3\xbc\xff"}


async def test_a_run_inherits_no_open_files(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await run_to_end(runtime, a_config(tmp_path, "ls", "/proc/self/fd"))

    # The fourth is the listed directory.
    assert log_text(tmp_path).split() == ["0", "1", "2", "3"]


async def test_a_run_blocks_and_ignores_no_signal(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await run_to_end(runtime, a_config(tmp_path, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))

    _, blocked, _, ignored = log_text(tmp_path).split()
    # The C library reserves two signals, which its children ignore and which cannot be changed.
    assert [int(blocked, 16), int(ignored, 16) & ~(3 << 31)] == [0, 0]


async def test_a_run_may_open_its_output_again(runtime: ProcessRuntime, tmp_path: Path) -> None:
    code = await run_to_end(runtime, shell(tmp_path, "echo out >/dev/stdout; echo err >/dev/stderr; cat"))

    assert code == 0
    assert sorted(log_text(tmp_path).split()) == ["err", "out"]


async def test_a_command_is_executed_in_the_container(runtime: ProcessRuntime, tmp_path: Path) -> None:
    config = shell(
        tmp_path, "sleep 1000", environment={"PATH": "/usr/bin:/bin", "MINE": "yes"}, directory="/usr"
    )
    run = await runtime.start_container(config)

    answer = await runtime.exec_sync(run.id, ["sh", "-c", 'echo "$MINE"; pwd; exit 9'], timeout_seconds=LIMIT)

    assert answer == (9, b"yes\n/usr\n")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        pytest.param(["sleep", "1000"], 124, id="takes too long"),
        pytest.param(["nonsense"], 127, id="does not exist"),
        pytest.param(["/etc/passwd"], 126, id="is not a program"),
        pytest.param(["sh", "-c", "kill -9 $$"], 137, id="is killed"),
    ],
)
async def test_the_exit_code_of_an_executed_command_when_it(
    runtime: ProcessRuntime, tmp_path: Path, argv: list[str], code: int
) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sleep", "1000"))

    answer = await runtime.exec_sync(run.id, argv, timeout_seconds=0.3 if code == 124 else LIMIT)

    assert answer[0] == code


async def test_the_end_of_another_process_does_not_prolong_the_time_limit_of_a_command(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sleep", "30"))

    script = "sh -c 'sleep 0.1 &'; exec sleep 600"
    async with asyncio.timeout(LIMIT):
        code, _ = await runtime.exec_sync(run.id, ["sh", "-c", script], timeout_seconds=0.5)

    assert code == 124


async def test_the_first_10_kib_of_an_executed_commands_output_are_returned(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sleep", "1000"))

    code, output = await runtime.exec_sync(
        run.id, ["sh", "-c", "head -c 1000000 /dev/zero"], timeout_seconds=LIMIT
    )

    assert (code, output) == (0, bytes(10 * 1024))


async def test_a_command_in_an_ended_run_fails(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await run_to_end(runtime, a_config(tmp_path, "true"))

    code, _ = await runtime.exec_sync(RunId("pod.main.0"), ["true"], timeout_seconds=LIMIT)

    assert code == 126


async def test_only_an_ended_run_can_be_removed(runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await runtime.start_container(a_config(tmp_path, "sleep", "1000"))
    with pytest.raises(Conflict, match="still running"):
        await runtime.remove_container(run.id)
    await runtime.signal(run.id, signal.SIGKILL)
    await wait_until_ended(runtime)

    await runtime.remove_container(run.id)

    assert not runtime.list_containers()
    assert not list((tmp_path / "runs").iterdir())
    assert (tmp_path / "logs" / "pod.main.0.log").exists()
    await runtime.remove_container(run.id)
    await runtime.signal(run.id, signal.SIGKILL)


async def test_many_runs_start_concurrently(runtime: ProcessRuntime, tmp_path: Path) -> None:
    orders = [shell(tmp_path, f"exit {number}", run=f"pod.main.{number}") for number in range(40)]

    codes = await asyncio.gather(*(run_to_end(runtime, config) for config in orders))

    assert codes == list(range(40))


async def test_much_output_is_not_lost(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await run_to_end(runtime, shell(tmp_path, "seq 100000; printf end"))

    assert log_text(tmp_path) == "".join(f"{number}\n" for number in range(1, 100001)) + "end"


async def test_a_run_has_the_configured_user(tmp_path: Path) -> None:
    user, group, groups = (1234, 2345, [3456]) if AS_ROOT else (os.geteuid(), os.getegid(), [])
    script = "echo $(id -u) $(id -g); echo again >/dev/stdout"
    async with a_runtime(tmp_path) as runtime:
        await run_to_end(runtime, shell(tmp_path, script, user=user, group=group, groups=groups))

    assert log_text(tmp_path) == f"{user} {group}\nagain\n"


async def test_a_run_has_the_configured_supplementary_groups(tmp_path: Path) -> None:
    groups = [3456, 4567] if AS_ROOT else [os.getegid()]
    async with a_runtime(tmp_path) as runtime:
        await run_to_end(runtime, a_config(tmp_path, "id", "-G", group=os.getegid(), groups=groups))

    assert set(log_text(tmp_path).split()) == {str(os.getegid()), *map(str, groups)}


async def test_another_user_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_runtime(tmp_path) as runtime:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)

        with pytest.raises(StartFailed, match="start it as root") as error:
            await runtime.start_container(a_config(tmp_path, "true", user=1234))

        assert error.value.reason == "CreateContainerConfigError"


@pytest.mark.skipif("bwrap" not in ISOLATION_MODES, reason="bubblewrap is not installed")
async def test_bubblewrap_cannot_become_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_isolation("bwrap", tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as runtime:
        with pytest.raises(StartFailed, match="runAsUser"):
            await runtime.start_container(a_config(tmp_path, "true", user=os.geteuid()))


@pytest.mark.parametrize("isolation", ISOLATION_MODES)
async def test_a_run_that_exceeds_its_memory_limit_is_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    python = sys.executable
    use_isolation(isolation, tmp_path, monkeypatch)
    script = "x = bytearray(300_000_000); x[::4096] = bytes(len(x[::4096])); raise SystemExit(5)"
    config = a_config(tmp_path, python, "-S", "-c", script, limits=ResourceLimits(memory=50_000_000, cpu=0.5))
    async with a_runtime(tmp_path) as runtime:
        await runtime.start_container(config)
        result = await wait_until_ended(runtime)
        limited = not any(
            sentence.startswith("Memory limits") for sentence in runtime.unsupported_features(config)
        )

    assert result.ended is not None
    outcome = (result.ended.exit_code, result.ended.reason == OOM_KILLED)
    assert outcome == ((137, True) if limited else (5, False))
    facts = os.stat(tmp_path)
    ours = f"framework-launcher-{facts.st_dev:x}-{facts.st_ino:x}"
    assert not [where for where, _, _ in os.walk("/sys/fs/cgroup") if where.endswith(ours)]


async def test_a_child_killed_for_memory_is_counted_while_the_container_continues(
    tmp_path: Path,
) -> None:
    script = "x = bytearray(300_000_000); x[::4096] = bytes(len(x[::4096]))"
    config = shell(
        tmp_path,
        f"{sys.executable} -S -c '{script}'; exec sleep 60",
        limits=ResourceLimits(memory=50_000_000),
    )
    async with a_runtime(tmp_path) as runtime:
        if any(sentence.startswith("Memory limits") for sentence in runtime.unsupported_features(config)):
            pytest.skip("memory limits cannot be set here")
        run = await runtime.start_container(config)
        await eventually(lambda: runtime.list_containers()[run.id].oom_kills > 0)
        await runtime.signal(run.id, 9)
        result = await wait_until_ended(runtime)

    assert result.oom_kills == 1
