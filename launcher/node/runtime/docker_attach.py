"""Sessions with the streams of containers that have an input or a terminal, through the engine."""

import asyncio
from typing import Self

from aiodocker.stream import Stream

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import PodAttachOptions
from launcher.node.runtime.docker_engine import DockerEngine, EngineError
from launcher.node.runtime.docker_streams import DockerStreams

_ENGINE_SECONDS = 30.0
#: The engine ends the session when it reads these keys, and delays the first of them. Its default begins with ctrl-p.
_DETACH_KEYS = "ctrl-^,ctrl-],ctrl-^,ctrl-],ctrl-^"
#: The engine delays the container while the output is not read: so long, and then the session ends.
_SLOW_CLIENT_SECONDS = 10.0
_TOO_SLOW = (
    f"the client has not read the output of the container for {_SLOW_CLIENT_SECONDS:.0f} seconds: attach again, or "
    "follow its log"
)


class DockerAttachSession(DockerStreams):
    """The streams of a container of the engine."""

    def __init__(
        self, engine: DockerEngine, container: str, stream: Stream, options: PodAttachOptions
    ) -> None:
        super().__init__(stream, options, self._resize_container)
        self._engine, self._container, self._options = engine, container, options
        self._is_too_slow = False

    @classmethod
    async def open(cls, engine: DockerEngine, container: str, options: PodAttachOptions) -> Self:
        """Attaches to the container. Raises Unavailable."""
        try:
            async with engine.call(_ENGINE_SECONDS) as client:
                stream = client.containers.container(container).attach(
                    stdin=options.stdin, stdout=True, stderr=True, detach_keys=_DETACH_KEYS
                )
                await stream.__aenter__()
        except EngineError as error:
            raise Unavailable(str(error)) from error
        return cls(engine, container, stream, options)

    async def queue_output(self, queue: asyncio.Queue[bytes], data: bytes) -> None:
        try:
            async with asyncio.timeout(_SLOW_CLIENT_SECONDS):
                await queue.put(data)
        except TimeoutError:
            self._is_too_slow = True
            await self._stream.close()
            raise

    async def _resize_container(self, columns: int, rows: int) -> None:
        async with self._engine.call(_ENGINE_SECONDS) as client:
            await client.containers.container(self._container).resize(w=columns, h=rows)

    async def close_stdin(self) -> None:
        if self._options.ends_input:
            self.end_input()
        elif self._options.stdin:
            self.ended.set()

    async def wait(self) -> int:
        """Waits until the container terminates, or the client has detached."""
        await self.ended.wait()
        if self._is_too_slow:
            raise Unavailable(_TOO_SLOW)
        return 0

    async def close(self) -> None:
        await self.close_streams()
