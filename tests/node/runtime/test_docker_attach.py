"""Sessions with the streams of containers of an engine, whose client is slow."""

import asyncio
from typing import Any

import pytest
from aiodocker.stream import Message

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import PodAttachOptions
from launcher.node.runtime import docker_attach
from launcher.node.runtime.docker_attach import DockerAttachSession


class EndlessStream:
    """The streams of a container that always has output."""

    def __init__(self) -> None:
        self.parts = 0
        self.closed = asyncio.Event()

    async def read_out(self) -> Message:
        self.parts += 1
        await asyncio.sleep(0)
        return Message(1, b"x" * 1000)

    async def close(self) -> None:
        self.closed.set()


async def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_attach, "_SLOW_CLIENT_SECONDS", 0.05)
    stream, engine = EndlessStream(), None
    opened: Any = stream
    session = DockerAttachSession(engine, "container", opened, PodAttachOptions(stdin=True))  # type: ignore[arg-type]  # no call is made

    await asyncio.wait_for(stream.closed.wait(), 30)

    with pytest.raises(Unavailable, match="has not read"):
        await session.wait()
    assert stream.parts < 100
    await session.close()


async def test_a_client_that_reads_is_not_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_attach, "_SLOW_CLIENT_SECONDS", 5.0)
    stream, engine = EndlessStream(), None
    opened: Any = stream
    session = DockerAttachSession(engine, "container", opened, PodAttachOptions(stdin=True))  # type: ignore[arg-type]  # no call is made

    received = [await session.read("stdout") for _ in range(200)]
    await session.close_stdin()

    assert b"".join(received) == b"x" * 200_000
    assert await session.wait() == 0
    await session.close()
