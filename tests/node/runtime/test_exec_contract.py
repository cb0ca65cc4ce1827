"""Sessions of commands with input and terminals, in containers of each real container runtime."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.core.pods.exec_session import ExecSession, PodExecOptions
from launcher.node.container_runtime import Mount, RuntimeService
from tests.eventually import eventually
from tests.node.contract import ONE, REAL_RUNTIMES, ContractRuntimes, a_config

LIMIT = 60.0
pytestmark = pytest.mark.timeout(2 * LIMIT)


@pytest.fixture(params=REAL_RUNTIMES)
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RuntimeService]:
    """A runtime with a running container, in which the directory ``gate`` of the test is mounted."""
    gate = tmp_path / "gate"
    gate.mkdir()
    async with ContractRuntimes(request, tmp_path / "data").open() as real:
        await real.start_container(a_config(tmp_path, "sleep", "600", mounts=[Mount(gate, "/gate")]))
        yield real


async def output(session: ExecSession) -> bytes:
    """The whole output of the command."""
    parts = []
    async with asyncio.timeout(LIMIT):
        while part := await session.read("stdout"):
            parts.append(part)
    return b"".join(parts)


async def test_the_input_of_a_session_is_passed_on_to_its_end(runtime: RuntimeService) -> None:
    text = b"0123456789abcdef" * 40_000
    session = await runtime.exec(ONE, PodExecOptions(["sh", "-c", "cat; exit 5"], stdin=True))

    async def send() -> None:
        await session.write(text)
        await session.close_stdin()

    _, received = await asyncio.gather(send(), output(session))

    assert received == text
    assert await session.wait() == 5
    await session.close()


async def test_a_terminal_has_the_size_of_the_client(runtime: RuntimeService) -> None:
    script = (
        "test -t 0 && test -t 1 && until stty size | grep '33 77'; do sleep 0.05; done; read line; exit $line"
    )
    options = PodExecOptions(["sh", "-c", script], stdin=True, stderr=False, tty=True)
    session = await runtime.exec(ONE, options)

    session.resize(77, 33)
    await session.write(b"6\n")

    assert b"33 77" in await output(session)
    assert await session.wait() == 6
    await session.close()


async def test_a_command_receives_sighup_when_its_session_is_closed(
    runtime: RuntimeService, tmp_path: Path
) -> None:
    script = (
        "exec 2>/dev/null; trap 'touch /gate/hung-up; exit' HUP; echo ready; while :; do sleep 0.05; done"
    )
    session = await runtime.exec(ONE, PodExecOptions(["sh", "-c", script]))
    assert await session.read("stdout") == b"ready\n"

    await session.close()

    await eventually(lambda: (tmp_path / "gate" / "hung-up").exists(), "the command has received it")
