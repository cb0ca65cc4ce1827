"""Containers with input and terminals, and the clients that attach to them, in each real container runtime."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.pods.exec_session import ExecSession, PodAttachOptions
from launcher.node.container_runtime import RuntimeService
from tests.eventually import eventually
from tests.node.attached import INPUT, TERMINAL, attached, read_until
from tests.node.contract import ONE, REAL_RUNTIMES, ContractRuntimes, a_config, log_path, log_text

LIMIT = 60.0
pytestmark = pytest.mark.timeout(2 * LIMIT)
INPUT_ONCE = PodAttachOptions(stdin=True, stdin_once=True)
#: Repeats its input, and reports the end of it.
REPEAT = "echo ready; while read line; do echo got $line; echo bad $line >&2; done; echo ended"


@pytest.fixture(params=REAL_RUNTIMES)
def runtimes(request: pytest.FixtureRequest, tmp_path: Path) -> ContractRuntimes:
    return ContractRuntimes(request, tmp_path / "data")


@pytest.fixture
async def runtime(runtimes: ContractRuntimes) -> AsyncIterator[RuntimeService]:
    async with runtimes.open() as real:
        yield real


async def start(runtime: RuntimeService, tmp_path: Path, script: str, **config: Any) -> None:
    """Starts a container, and waits until its log contains ``ready``."""
    await runtime.start_container(a_config(tmp_path, "sh", "-c", script, **config))

    def is_ready() -> bool:
        return log_path(tmp_path).exists() and "ready" in log_text(tmp_path)

    await eventually(is_ready, "the container is ready")


async def exit_code(runtime: RuntimeService) -> int:
    def probe() -> int | None:
        ended = runtime.list_containers()[ONE].ended
        return None if ended is None else ended.exit_code + 1000

    return await eventually(probe, "the container has ended") - 1000


async def test_each_client_after_the_other_sends_input_and_receives_output(
    runtime: RuntimeService, runtimes: ContractRuntimes, tmp_path: Path
) -> None:
    if runtimes.kind == "podman":
        pytest.skip("Podman ends the input with the first client")
    await start(runtime, tmp_path, REPEAT, stdin=True)

    for word in (b"one", b"two"):
        async with attached(runtime, ONE, INPUT) as session:
            await session.write(word + b"\n")
            assert b"ready" not in await read_until(session, b"got " + word)
            await read_until(session, b"bad " + word, "stderr")
            await session.close_stdin()
            assert await session.wait() == 0

    assert runtime.list_containers()[ONE].ended is None


async def test_the_input_of_a_container_with_stdin_once_ends_with_its_first_client(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    await start(runtime, tmp_path, REPEAT, stdin=True, stdin_once=True)

    async with attached(runtime, ONE, INPUT_ONCE) as session:
        await session.write(b"last\n")
        await session.close_stdin()
        await read_until(session, b"ended")
        assert await session.wait() == 0

    assert await exit_code(runtime) == 0
    assert log_text(tmp_path, stream="stdout") == "ready\ngot last\nended\n"


async def test_all_clients_receive_the_output_that_follows_from_the_input_of_one(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    await start(runtime, tmp_path, REPEAT, stdin=True)

    async with attached(runtime, ONE, INPUT) as first, attached(runtime, ONE, INPUT) as second:
        await first.write(b"one\n")
        await asyncio.gather(read_until(first, b"got one"), read_until(second, b"got one"))
        await second.write(b"two\n")
        await asyncio.gather(read_until(first, b"got two"), read_until(second, b"got two"))


async def test_a_container_with_a_terminal_has_the_size_of_its_client(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    script = (
        "test -t 0 && test -t 1 && test -t 2 && echo $TERM ready </dev/tty; "
        "until stty size 2>/dev/null | grep '33 77'; do sleep 0.05; done; read line; exit $line"
    )
    await start(runtime, tmp_path, script, stdin=True, tty=True)

    async with attached(runtime, ONE, TERMINAL) as session:
        session.resize(77, 33)
        await read_until(session, b"33 77\r\n")
        await session.write(b"6\n")
        await read_until(session, b"6\r\n")
        assert await session.wait() == 0

    assert await exit_code(runtime) == 6
    assert log_text(tmp_path, stream="stdout") == "xterm ready\n33 77\n6\n"


async def test_the_interrupt_key_of_a_terminal_sends_sigint(runtime: RuntimeService, tmp_path: Path) -> None:
    script = "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    await start(runtime, tmp_path, script, stdin=True, tty=True)

    async with attached(runtime, ONE, TERMINAL) as session:
        await session.write(b"\x03")
        await read_until(session, b"interrupted")

    assert await exit_code(runtime) == 7


async def test_the_prompt_of_a_shell_reaches_the_client_before_the_end_of_its_line(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    await start(runtime, tmp_path, "echo ready; read go; PS1='prompt> ' exec sh -i", stdin=True, tty=True)

    async with attached(runtime, ONE, TERMINAL) as session:
        await session.write(b"go\n")
        await read_until(session, b"prompt> ")
        await session.write(b"echo $((40+2)); exit 3\n")
        await read_until(session, b"42\r\n")

    assert await exit_code(runtime) == 3


async def test_signals_reach_the_program_of_a_container_with_a_terminal(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    await start(runtime, tmp_path, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done", tty=True)

    await runtime.signal(ONE, 15)

    assert await exit_code(runtime) == 9


async def test_a_container_without_stdin_has_an_empty_input(runtime: RuntimeService, tmp_path: Path) -> None:
    await runtime.start_container(a_config(tmp_path, "sh", "-c", "cat; echo ended"))

    assert await exit_code(runtime) == 0
    assert log_text(tmp_path) == "ended\n"


async def test_output_is_received_from_a_container_without_stdin(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    script = "trap 'echo out; echo bad >&2; exit' TERM; echo ready; while :; do sleep 0.05; done"
    await start(runtime, tmp_path, script)

    async with attached(runtime, ONE, PodAttachOptions()) as session:
        await runtime.signal(ONE, 15)
        assert await read_until(session, b"out") == b"out\n"
        # The shell may also report that the signal has ended sleep.
        assert (await read_until(session, b"bad", "stderr")).endswith(b"bad\n")
        assert await session.wait() == 0
        assert await session.read("stdout") == b""


async def test_input_that_a_container_does_not_read_is_not_accepted(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    await start(runtime, tmp_path, "echo ready; exec sleep 600", stdin=True)
    chunk, accepted = b"x" * 65536, 0

    async def send(session: ExecSession) -> None:
        nonlocal accepted
        while accepted < 64 * 2**20:
            await asyncio.wait_for(session.write(chunk), 3)
            accepted += len(chunk)

    async with attached(runtime, ONE, INPUT) as session:
        with pytest.raises(TimeoutError):
            await send(session)

    assert accepted < 8 * 2**20


async def test_a_container_keeps_its_input_and_its_terminal_while_the_launcher_is_restarted(
    runtimes: ContractRuntimes, tmp_path: Path
) -> None:
    script = "echo ready; read line; echo got $line; read line; exit $line"
    async with runtimes.open(stop=False) as runtime:
        await start(runtime, tmp_path, script, stdin=True, tty=True)
        async with attached(runtime, ONE, TERMINAL) as session:
            await session.write(b"one\n")
            await read_until(session, b"got one\r\n")

    async with runtimes.open() as runtime:
        async with attached(runtime, ONE, TERMINAL) as session:
            await session.write(b"5\n")
            assert await session.wait() == 0
        assert await exit_code(runtime) == 5
    assert log_text(tmp_path) == "ready\none\ngot one\n5\n"
