"""Containers with input and terminals, in every isolation mode of this machine."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import ExecSession, PodAttachOptions
from launcher.node.container_runtime import RunId, StartFailed
from launcher.node.runtime.attach_session import RelayConnection
from launcher.node.runtime.process_runtime import ProcessRuntime
from tests.eventually import eventually
from tests.node.attached import INPUT, TERMINAL, attached, read_until
from tests.node.runtimes import (
    ISOLATION_MODES,
    a_config,
    a_runtime,
    kill_shim,
    log_path,
    log_text,
    pids_matching,
    run_to_end,
    shell,
    shim_pid,
    use_isolation,
    wait_until_ended,
)

RUN = RunId("pod.main.0")
REPEAT = "while read line; do echo got $line; done; echo ended"


@pytest.fixture(params=[*ISOLATION_MODES, "plain"])
def isolation(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    mode: str = request.param
    use_isolation(mode, tmp_path, monkeypatch)
    return mode


@pytest.fixture
async def runtime(isolation: str, tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    async with a_runtime(tmp_path) as opened:
        yield opened


async def repeat(runtime: ProcessRuntime, word: bytes, options: PodAttachOptions = INPUT) -> None:
    """Attaches to a container that repeats its input."""
    async with attached(runtime, RUN, options) as session:
        await session.write(word + b"\n")
        await read_until(session, b"got " + word)


@pytest.mark.parametrize("options", [INPUT, TERMINAL], ids=["pipe", "terminal"])
async def test_a_container_keeps_its_input_when_the_shim_is_killed(
    runtime: ProcessRuntime, tmp_path: Path, options: PodAttachOptions
) -> None:
    await runtime.start_container(shell(tmp_path, REPEAT, stdin=True, tty=options.tty))
    await repeat(runtime, b"one", options)

    await kill_shim(runtime)
    await repeat(runtime, b"two", options)
    async with attached(runtime, RUN, options) as session:
        await runtime.signal(RUN, signal.SIGKILL)
        assert await session.wait() == 0

    ended = (await wait_until_ended(runtime)).ended
    assert ended is not None
    assert ended.exit_code == 137
    assert log_text(tmp_path).splitlines()[-1] == "got two"


async def test_a_terminal_is_the_controlling_one_and_its_last_output_is_logged(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo $TERM >/dev/tty; seq 1 30000; exit 4"

    assert await run_to_end(runtime, shell(tmp_path, script, tty=True)) == 4

    lines = log_text(tmp_path).splitlines()
    assert (lines[0], len(lines), lines[-1]) == ("xterm", 30001, "30000")
    assert b" stdout F 30000\r\n" in log_path(tmp_path).read_bytes()


async def test_output_of_a_terminal_while_no_shim_runs_is_logged_by_the_next_one(
    isolation: str, tmp_path: Path
) -> None:
    if isolation == "bwrap":
        pytest.skip("bubblewrap does not record the end of a container")
    async with a_runtime(tmp_path) as runtime:
        script = "echo ready; read go; seq 1 3000; exit 6"
        await runtime.start_container(shell(tmp_path, script, stdin=True, tty=True))
        await eventually(lambda: "ready" in log_text(tmp_path))
        connection = await RelayConnection.connect(tmp_path / "runs" / RUN)
        assert connection is not None
        await runtime.close(stop_shim=False)
        os.kill(shim_pid(runtime), signal.SIGKILL)

        await connection.send_input(b"go\n")
        connection.close()
        await eventually(lambda: not pids_matching("seq 1 3000"), "the container has ended")

    async with a_runtime(tmp_path) as runtime:
        ended = (await wait_until_ended(runtime)).ended
    assert ended is not None
    assert ended.exit_code == 6
    assert log_text(tmp_path).splitlines()[-1] == "3000"


@pytest.mark.parametrize("tty", [False, True])
async def test_sigterm_reaches_the_program_of_a_container_with_input(
    runtime: ProcessRuntime, tmp_path: Path, tty: bool
) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    await runtime.start_container(shell(tmp_path, script, stdin=True, tty=tty))
    await eventually(lambda: "ready" in log_text(tmp_path))

    await kill_shim(runtime)
    await runtime.signal(RUN, signal.SIGTERM)

    ended = (await wait_until_ended(runtime)).ended
    assert ended is not None
    assert ended.exit_code == 9


@pytest.mark.parametrize("tty", [False, True])
async def test_nothing_remains_of_a_container_with_input(
    runtime: ProcessRuntime, tmp_path: Path, tty: bool
) -> None:
    before = len(pids_matching(str(tmp_path)))

    assert await run_to_end(runtime, shell(tmp_path, "exit 3", stdin=True, tty=tty)) == 3
    await runtime.remove_container(RUN)

    await eventually(lambda: len(pids_matching(str(tmp_path))) == before, "the relay has exited")
    assert not (tmp_path / "runs" / RUN).exists()


async def test_the_input_ends_with_the_first_client_although_another_one_is_attached(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    once = PodAttachOptions(stdin=True, stdin_once=True)
    await runtime.start_container(shell(tmp_path, REPEAT, stdin=True, stdin_once=True))

    async with attached(runtime, RUN, PodAttachOptions()), attached(runtime, RUN, once) as other:
        async with attached(runtime, RUN, once) as session:
            await session.write(b"last\n")
        assert await read_until(other, b"ended") == b"got last\nended\n"
        await other.write(b"dropped\n")
        assert await other.wait() == 0


async def test_a_client_without_input_does_not_end_that_of_the_container(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    await runtime.start_container(shell(tmp_path, REPEAT, stdin=True, stdin_once=True))

    async with attached(runtime, RUN, PodAttachOptions(stdin_once=True)):
        pass

    await repeat(runtime, b"word", PodAttachOptions(stdin=True, stdin_once=True))


async def test_a_client_that_does_not_read_delays_neither_the_container_nor_others(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    script = "read go; seq 1 300000; echo last"
    await runtime.start_container(shell(tmp_path, script, stdin=True))

    async with attached(runtime, RUN), attached(runtime, RUN) as reader:
        await reader.write(b"go\n")
        await read_until(reader, b"last")

    assert (await wait_until_ended(runtime)).ended is not None


async def test_input_that_is_not_read_needs_no_memory(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, "sleep", "600", stdin=True))
    accepted, chunk = 0, b"x" * 2**20

    async def send(session: ExecSession) -> None:
        nonlocal accepted
        while True:
            await session.write(chunk)
            accepted += len(chunk)

    async with attached(runtime, RUN) as one, attached(runtime, RUN) as two, attached(runtime, RUN) as three:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.gather(send(one), send(two), send(three))

    assert accepted < len(chunk)


async def test_too_many_clients_are_reported(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, "sleep", "600", stdin=True))
    connections = [await RelayConnection.connect(tmp_path / "runs" / RUN) for _ in range(64)]

    with pytest.raises(Unavailable, match="too many clients"):
        await RelayConnection.connect(tmp_path / "runs" / RUN)

    for connection in connections:
        assert connection is not None
        connection.close()
    await eventually(lambda: _connects(tmp_path / "runs" / RUN), "clients are accepted again")


async def _connects(directory: Path) -> bool:
    try:
        connection = await RelayConnection.connect(directory)
    except Unavailable:
        return False
    if connection is not None:
        connection.close()
    return connection is not None


@pytest.mark.parametrize("tty", [False, True])
async def test_a_program_that_does_not_exist_leaves_no_relay(
    runtime: ProcessRuntime, isolation: str, tmp_path: Path, tty: bool
) -> None:
    before = len(pids_matching(str(tmp_path)))
    config = a_config(tmp_path, "nosuch", stdin=True, tty=tty)

    if isolation == "bwrap" and tty:
        assert await run_to_end(runtime, config) == 127
    else:
        with pytest.raises(StartFailed, match="nosuch"):
            await runtime.start_container(config)

    await eventually(lambda: len(pids_matching(str(tmp_path))) == before, "the relay has exited")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("tty", [False, True])
async def test_another_user_can_open_its_streams_again(tmp_path: Path, tty: bool) -> None:
    options: dict[str, Any] = {"stdin": True, "tty": tty, "user": 1000, "group": 1000}
    async with a_runtime(tmp_path) as runtime:
        await runtime.start_container(
            shell(tmp_path, "read a </dev/stdin; echo got $a >/dev/stdout", **options)
        )
        await repeat(runtime, b"word", TERMINAL if tty else INPUT)
