"""The streams of a command or of a container, in one connection to the engine."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp
from aiodocker.stream import Stream

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import OutputStream, StreamOptions
from launcher.node.runtime.docker_engine import EngineError

log = logging.getLogger(__name__)

_STDERR = 2
_MAX_QUEUED_PARTS = 16
_RESIZE_ATTEMPTS, _RESIZE_RETRY_SECONDS = 50, 0.1


class DockerStreams:
    """An open connection, whose output is queued until it is read."""

    def __init__(
        self, stream: Stream, options: StreamOptions, set_size: Callable[[int, int], Awaitable[None]]
    ) -> None:
        """*set_size* sets the columns and rows of the terminal. Raises EngineError, Unavailable."""
        self._stream, self._set_size = stream, set_size
        #: Output that was not read yet; the connection is not read while there is much of it.
        self._output: dict[OutputStream, asyncio.Queue[bytes]] = {
            name: asyncio.Queue(_MAX_QUEUED_PARTS) for name in options.outputs
        }
        #: Set at the end of the streams.
        self.ended = asyncio.Event()
        self._task = asyncio.create_task(self._receive())
        self._tty = options.tty
        self._size = (0, 0)
        self._resizing: asyncio.Task[None] | None = None
        if (transport := self._transport()) is not None:
            # Input is accepted when the engine has it.
            transport.set_write_buffer_limits(high=0)

    def _transport(self) -> asyncio.Transport | None:
        response = getattr(self._stream, "_resp", None)  # aiodocker cannot close one direction only
        connection = response.connection if response is not None else None
        return connection.transport if connection is not None else None

    async def _receive(self) -> None:
        try:
            while (message := await self._stream.read_out()) is not None:
                queue = self._output.get("stderr" if message.stream == _STDERR else "stdout")
                if queue is not None:
                    await self.queue_output(queue, message.data)
        except (aiohttp.ClientError, OSError) as error:
            log.info("streams interrupted", extra={"error": str(error)})
        finally:
            self.ended.set()

    async def queue_output(self, queue: asyncio.Queue[bytes], data: bytes) -> None:
        """Waits until there is space in the queue. Raises OSError to end the streams."""
        await queue.put(data)

    async def read(self, stream: OutputStream) -> bytes:
        queue = self._output[stream]
        if self.ended.is_set() or not queue.empty():
            return b"" if queue.empty() else queue.get_nowait()
        part = asyncio.create_task(queue.get())
        ended = asyncio.create_task(self.ended.wait())
        try:
            await asyncio.wait({part, ended}, return_when=asyncio.FIRST_COMPLETED)
            if part.done():
                return part.result()
        finally:
            part.cancel()
            ended.cancel()
        return b"" if queue.empty() else queue.get_nowait()

    async def write(self, data: bytes) -> None:
        if not self.ended.is_set():
            with suppress(aiohttp.ClientError, OSError, RuntimeError):  # it has ended, or closed its input
                await self._stream.write_in(data)

    def end_input(self) -> None:
        """Closes the direction of the connection that carries input."""
        if (transport := self._transport()) is not None:
            with suppress(OSError):
                transport.write_eof()

    def resize(self, columns: int, rows: int) -> None:
        if self._tty:
            self._size = (columns, rows)
            if self._resizing is None or self._resizing.done():
                self._resizing = asyncio.create_task(self._apply_size())

    async def _apply_size(self) -> None:
        """Sets the last size of the terminal. The engine rejects it while it still starts the command."""
        for _ in range(_RESIZE_ATTEMPTS):
            columns, rows = size = self._size
            try:
                await self._set_size(columns, rows)
            except Unavailable:
                return
            except EngineError:
                await asyncio.sleep(_RESIZE_RETRY_SECONDS)
                continue
            if size == self._size:
                return

    async def close_streams(self) -> None:
        """Closes the connection."""
        tasks = [task for task in (self._task, self._resizing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        transport = self._transport()
        with suppress(aiohttp.ClientError, OSError):
            await self._stream.close()
        if transport is not None and transport.get_write_buffer_size():
            transport.abort()  # input that is not read, and would keep the connection open
