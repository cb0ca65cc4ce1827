"""A client that is attached to a container, in tests of container runtimes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from launcher.core.pods.exec_session import ExecSession, OutputStream, PodAttachOptions
from launcher.node.container_runtime import RunId, RuntimeService

INPUT = PodAttachOptions(stdin=True)
TERMINAL = PodAttachOptions(stdin=True, stderr=False, tty=True)
_LIMIT_SECONDS = 60.0


@asynccontextmanager
async def attached(
    runtime: RuntimeService, run: RunId, options: PodAttachOptions = INPUT
) -> AsyncIterator[ExecSession]:
    """A session of the container."""
    async with asyncio.timeout(_LIMIT_SECONDS):
        session = await runtime.attach(run, options)
        try:
            yield session
        finally:
            await session.close()


async def read_until(session: ExecSession, end: bytes, stream: OutputStream = "stdout") -> bytes:
    """The output until it contains *end*."""
    output = b""
    while end not in output:
        part = await session.read(stream)
        assert part, output
        output += part
    return output
