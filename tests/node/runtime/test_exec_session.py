"""Sessions of commands in containers, in every isolation mode of this machine."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import OutputStream, PodExecOptions
from launcher.node.container_runtime import Confinement, ContainerRun, ResourceLimits, RunId
from launcher.node.runtime.exec_session import ProcessExecSession
from launcher.node.runtime.process_runtime import ProcessRuntime
from tests.eventually import eventually
from tests.node.runtimes import (
    ISOLATION_MODES,
    LIMIT,
    a_config,
    a_runtime,
    kill_shim,
    log_text,
    pids_matching,
    shell,
    use_isolation,
    wait_until_ended,
)


@pytest.fixture(params=[*ISOLATION_MODES, "plain"])
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    use_isolation(request.param, tmp_path, monkeypatch)
    async with a_runtime(tmp_path) as opened:
        yield opened


@pytest.fixture
async def run(runtime: ProcessRuntime, tmp_path: Path) -> ContainerRun:
    """A container that runs until the end of the test."""
    return await runtime.start_container(
        a_config(tmp_path, "sleep", "600", environment={"PATH": "/usr/bin:/bin", "MINE": "yes"})
    )


@asynccontextmanager
async def a_session(
    runtime: ProcessRuntime, run: RunId, *command: str, **options: Any
) -> AsyncIterator[ProcessExecSession]:
    """A session, which is closed afterwards."""
    async with asyncio.timeout(LIMIT):
        session = await runtime.exec(run, PodExecOptions(command, **options))
        try:
            yield session
        finally:
            await session.close()


async def read_all(session: ProcessExecSession, stream: OutputStream = "stdout") -> bytes:
    """All output of the stream."""
    output = b""
    while data := await session.read(stream):
        output += data
    return output


async def read_until(session: ProcessExecSession, end: bytes) -> bytes:
    """The output until *end*."""
    output = b""
    while end not in output:
        data = await session.read("stdout")
        assert data, output
        output += data
    return output


async def test_a_command_has_the_environment_and_the_directory_of_its_container(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    environment = {"PATH": "/usr/bin:/bin", "MINE": "yes"}
    run = await runtime.start_container(
        a_config(tmp_path, "sleep", "600", directory="/usr", environment=environment)
    )

    async with a_session(runtime, run.id, "sh", "-c", 'echo "$MINE"; pwd; echo bad >&2; exit 9') as session:
        output, errors = await read_all(session), await read_all(session, "stderr")
        code = await session.wait()

    assert (code, output, errors) == (9, b"yes\n/usr\n", b"bad\n")


async def test_input_reaches_the_command_until_it_is_closed(
    runtime: ProcessRuntime, run: ContainerRun
) -> None:
    async with a_session(runtime, run.id, "cat", stdin=True) as session:
        await session.write(b"one\n")
        first = await session.read("stdout")
        await session.write(b"two\n")
        await session.close_stdin()
        rest, code = await read_all(session), await session.wait()

    assert (first, rest, code) == (b"one\n", b"two\n", 0)


async def test_a_command_without_input_reads_its_end(runtime: ProcessRuntime, run: ContainerRun) -> None:
    async with a_session(runtime, run.id, "cat") as session:
        assert await session.wait() == 0


async def test_input_that_is_not_read_is_dropped_when_the_command_exits(
    runtime: ProcessRuntime, run: ContainerRun
) -> None:
    async with a_session(runtime, run.id, "sleep", "0.2", stdin=True) as session:
        await session.write(b"x" * 10_000_000)

        assert await session.wait() == 0


async def test_a_command_waits_until_its_output_is_read(runtime: ProcessRuntime, run: ContainerRun) -> None:
    script = "i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/zero; i=$((i+1)); done; exit 3"
    async with a_session(runtime, run.id, "sh", "-c", script) as session:
        waiting = asyncio.create_task(session.wait())
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()

        output = await read_all(session)

        assert (len(output), await waiting) == (4_000_000, 3)


async def test_a_process_in_the_background_does_not_prolong_a_session_and_ends_with_the_container(
    runtime: ProcessRuntime, run: ContainerRun
) -> None:
    mark = f"598.{os.getpid()}"
    async with a_session(runtime, run.id, "sh", "-c", f"sleep {mark} & echo done") as session:
        assert await session.wait() == 0
        assert await read_all(session) == b"done\n"
    await runtime.signal(run.id, signal.SIGKILL)

    await eventually(lambda: not pids_matching(mark), "the process was killed")


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        pytest.param(["no-such-program"], 127, b"not found", id="does not exist"),
        pytest.param(["/etc/passwd"], 126, b"permission denied", id="is not executable"),
        pytest.param(["sh", "-c", "kill -9 $$"], 137, b"", id="is killed"),
    ],
)
async def test_the_exit_code_of_a_command_that(
    runtime: ProcessRuntime, run: ContainerRun, argv: list[str], code: int, error: bytes
) -> None:
    async with a_session(runtime, run.id, *argv) as session:
        assert await session.wait() == code
        assert error in await read_all(session, "stderr")


async def test_a_command_with_a_terminal(runtime: ProcessRuntime, run: ContainerRun) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && stty size </dev/tty; echo $TERM; read line; stty size"
    async with a_session(runtime, run.id, "sh", "-c", script, stdin=True, stderr=False, tty=True) as session:
        session.resize(100, 30)
        before = await read_until(session, b"xterm\r\n")
        session.resize(90, 20)
        await session.write(b"\n")
        after, code = await read_all(session), await session.wait()

    assert before in (b"30 100\r\nxterm\r\n", b"0 0\r\nxterm\r\n")
    assert b"20 90" in after
    assert code == 0


async def test_a_terminal_reports_its_new_size_and_passes_on_ctrl_c(
    runtime: ProcessRuntime, run: ContainerRun
) -> None:
    script = "trap 'echo resized' WINCH; trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    async with a_session(runtime, run.id, "sh", "-c", script, stdin=True, stderr=False, tty=True) as session:
        await read_until(session, b"ready")
        session.resize(90, 20)
        await read_until(session, b"resized")
        await session.write(b"\x03")
        await read_until(session, b"interrupted")

        assert await session.wait() == 5


async def test_the_end_of_the_input_ends_a_shell_on_a_terminal(
    runtime: ProcessRuntime, run: ContainerRun
) -> None:
    async with a_session(runtime, run.id, "sh", stdin=True, stderr=False, tty=True) as session:
        await session.write(b"echo $((40+2))\n")
        await read_until(session, b"42")
        await session.close_stdin()

        assert await session.wait() == 0


@pytest.mark.parametrize("tty", [False, True])
async def test_a_command_receives_sighup_when_its_session_is_closed(
    runtime: ProcessRuntime, run: ContainerRun, tmp_path: Path, tty: bool
) -> None:
    file = tmp_path / "hung-up"
    # A shell reports that sleep received the signal, and the pipe is closed.
    script = f"exec 2>/dev/null; trap 'echo yes >{file}; exit' HUP; echo ready; while :; do sleep 0.05; done"
    async with a_session(runtime, run.id, "sh", "-c", script, tty=tty, stderr=not tty) as session:
        await read_until(session, b"ready")

    await eventually(lambda: file.exists() and file.read_text() == "yes\n", "the command received SIGHUP")


async def test_a_command_that_ignores_sighup_is_killed(
    runtime: ProcessRuntime, run: ContainerRun, tmp_path: Path
) -> None:
    mark = f"597.{os.getpid()}"
    async with a_session(
        runtime, run.id, "sh", "-c", f"trap '' HUP; echo ready; exec sleep {mark}"
    ) as session:
        await read_until(session, b"ready")

    assert pids_matching(mark)
    await eventually(lambda: not pids_matching(mark), "the command was killed")


async def test_a_session_ends_with_its_container(runtime: ProcessRuntime, run: ContainerRun) -> None:
    async with a_session(runtime, run.id, "sh", "-c", "echo ready; exec sleep 600") as session:
        await read_until(session, b"ready")
        await runtime.signal(run.id, signal.SIGKILL)

        assert await session.wait() == 137
    await wait_until_ended(runtime)


async def test_a_session_survives_the_shim(runtime: ProcessRuntime, run: ContainerRun) -> None:
    async with a_session(runtime, run.id, "sh", "-c", "echo ready; read line; exit 4", stdin=True) as session:
        await read_until(session, b"ready")
        await kill_shim(runtime)
        await session.write(b"\n")

        assert await session.wait() == 4


async def test_no_session_is_opened_in_a_container_that_has_ended(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    await runtime.start_container(shell(tmp_path, "true"))
    await wait_until_ended(runtime)

    async with a_session(runtime, RunId("pod.main.0"), "true") as session:
        with pytest.raises(Unavailable, match="not running"):
            await session.wait()


async def test_a_command_has_no_descriptors_besides_its_streams(
    runtime: ProcessRuntime, run: ContainerRun
) -> None:
    script = "for file in /proc/$$/fd/*; do readlink $file; done"
    async with a_session(runtime, run.id, "sh", "-c", script, stdin=True) as session:
        files = (await read_all(session)).split()

    assert [file.partition(b":")[0] for file in files] == [b"pipe"] * 3


async def test_a_command_has_the_cgroups_and_the_privileges_of_its_container(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    script = "cat /proc/self/cgroup; grep -e NoNewPrivs -e Cap /proc/self/status"
    run = await runtime.start_container(
        shell(
            tmp_path,
            f"{script}; exec sleep 600",
            confinement=Confinement(capabilities=["CHOWN"], no_new_privileges=True),
            limits=ResourceLimits(pids=50),
        )
    )

    async with a_session(runtime, run.id, "sh", "-c", script) as session:
        output = await read_all(session)

    assert b"NoNewPrivs" in output
    await eventually(lambda: log_text(tmp_path) == output.decode(), "the container has printed the same")


async def test_the_streams_belong_to_the_user_of_the_container(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can run containers as another user")
    async with a_runtime(tmp_path) as runtime:
        run = await runtime.start_container(a_config(tmp_path, "sleep", "600", user=1234))

        async with a_session(
            runtime, run.id, "sh", "-c", "id -u >/dev/stdout; echo bad >/dev/stderr"
        ) as session:
            assert await read_all(session) == b"1234\n"
            assert await read_all(session, "stderr") == b"bad\n"
