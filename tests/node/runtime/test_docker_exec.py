"""Sessions of commands in containers of an engine that responds late."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from launcher.core.pods.exec_session import PodExecOptions
from launcher.node.runtime.docker_exec import DockerExecSession


class LateEngine:
    """An engine that reports the pid of a running command only when it is requested for the second time."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process, self._requests = process, 0

    @asynccontextmanager
    async def call(self, _: float) -> AsyncIterator[None]:
        yield

    async def inspect(self) -> dict[str, Any]:
        self._requests += 1
        return {
            "Running": self._process.poll() is None,
            "Pid": self._process.pid if self._requests > 1 else 0,
        }


class EndedStream:
    """The streams of a command, of which nothing is read."""

    async def read_out(self) -> None:
        return None

    async def close(self) -> None:
        """Does nothing."""


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as running:
        yield running
        running.kill()


async def test_a_command_ends_with_its_session_although_its_pid_is_reported_late(
    process: "subprocess.Popen[bytes]",
) -> None:
    engine: Any = LateEngine(process)
    stream: Any = EndedStream()
    session = DockerExecSession(engine, engine, stream, PodExecOptions(["sleep"]))

    await session.close()

    assert process.wait(30) == -1
