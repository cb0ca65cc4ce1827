"""Executes commands in containers of the engine."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import aiohttp
from aiodocker.execs import Exec
from aiodocker.stream import Stream

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import OutputStream, PodExecOptions
from launcher.node.runtime.docker_engine import DockerEngine, EngineError

log = logging.getLogger(__name__)

#: Exit codes, those of shells and of ``timeout``.
_TIMED_OUT, _NOT_EXECUTABLE = 124, 126
_MAX_OUTPUT_BYTES = 10 * 1024
#: The time in which the engine has to start a command and to report its exit code, beside its own time limit.
_ENGINE_SECONDS = 30.0
_STDERR = 2
_MAX_QUEUED_PARTS = 16
#: Ctrl-D, the end of the input of a terminal.
_END_OF_INPUT = b"\x04"
#: The exit code may be recorded a moment after the end of the streams.
_EXIT_CHECKS, _EXIT_CHECK_SECONDS = 100, 0.05
_RESIZE_ATTEMPTS, _RESIZE_RETRY_SECONDS = 50, 0.1
#: The time between SIGHUP and SIGKILL for a command whose client has disconnected.
_HANGUP_CHECKS, _HANGUP_CHECK_SECONDS = 20, 0.25


async def execute(
    engine: DockerEngine, container: str, argv: Sequence[str], timeout_seconds: float
) -> tuple[int, bytes]:
    """Executes the command. Returns its exit code and the beginning of its output. Raises Unavailable."""
    output = bytearray()
    try:
        async with engine.call(timeout_seconds + _ENGINE_SECONDS) as client:
            command = await client.containers.container(container).exec(list(argv), stdout=True, stderr=True)
            try:
                async with asyncio.timeout(timeout_seconds):
                    await _read(command, output)
            except TimeoutError:
                await _kill(command)
                return _TIMED_OUT, bytes(output)
            return int((await command.inspect()).get("ExitCode") or 0), bytes(output)
    except EngineError as error:
        return _NOT_EXECUTABLE, str(error).encode()


async def _read(command: Exec, output: bytearray) -> None:
    async with command.start(detach=False) as stream:
        while (message := await stream.read_out()) is not None:
            output += message.data[: _MAX_OUTPUT_BYTES - len(output)]


async def _kill(command: Exec) -> None:
    """Kills the command if this process may: the engine cannot."""
    pid = (await command.inspect()).get("Pid")
    if isinstance(pid, int) and pid > 0:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


class DockerExecSession:
    """A command in a container of the engine, with streams."""

    def __init__(self, engine: DockerEngine, command: Exec, stream: Stream, options: PodExecOptions) -> None:
        self._engine, self._command, self._stream, self._options = engine, command, stream, options
        #: Output that was not read yet; the command waits while there is much of it.
        self._output: dict[OutputStream, asyncio.Queue[bytes]] = {
            name: asyncio.Queue(_MAX_QUEUED_PARTS) for name in options.outputs
        }
        self._ended = asyncio.Event()
        self._task = asyncio.create_task(self._receive())
        self._size = (0, 0)
        self._resizing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, engine: DockerEngine, container: str, options: PodExecOptions) -> Self:
        """Starts the command. Raises Unavailable."""
        try:
            async with engine.call(_ENGINE_SECONDS) as client:
                command = await client.containers.container(container).exec(
                    list(options.command),
                    stdin=options.stdin,
                    stdout=options.stdout,
                    stderr=options.stderr,
                    tty=options.tty,
                )
                stream = command.start(detach=False)
                await stream.__aenter__()
        except EngineError as error:
            raise Unavailable(str(error)) from error
        return cls(engine, command, stream, options)

    async def _receive(self) -> None:
        try:
            while (message := await self._stream.read_out()) is not None:
                queue = self._output.get("stderr" if message.stream == _STDERR else "stdout")
                if queue is not None:
                    await queue.put(message.data)
        except (aiohttp.ClientError, OSError) as error:
            log.info("stream of a command interrupted", extra={"error": str(error)})
        finally:
            self._ended.set()

    async def read(self, stream: OutputStream) -> bytes:
        queue = self._output[stream]
        if self._ended.is_set() or not queue.empty():
            return b"" if queue.empty() else queue.get_nowait()
        part = asyncio.create_task(queue.get())
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({part, ended}, return_when=asyncio.FIRST_COMPLETED)
            if part.done():
                return part.result()
        finally:
            part.cancel()
            ended.cancel()
        return b"" if queue.empty() else queue.get_nowait()

    async def write(self, data: bytes) -> None:
        if not self._ended.is_set():
            with suppress(aiohttp.ClientError, OSError, RuntimeError):  # it has ended, or closed its input
                await self._stream.write_in(data)

    async def close_stdin(self) -> None:
        if self._options.tty:
            await self.write(_END_OF_INPUT)
            return
        response = self._stream._resp  # noqa: SLF001 - aiodocker cannot close one direction only
        if response is not None and response.connection is not None and response.connection.transport:
            with suppress(OSError):
                response.connection.transport.write_eof()

    def resize(self, columns: int, rows: int) -> None:
        if self._options.tty:
            self._size = (columns, rows)
            if self._resizing is None or self._resizing.done():
                self._resizing = asyncio.create_task(self._apply_size())

    async def _apply_size(self) -> None:
        """Sets the last size of the terminal. The engine rejects it while it still starts the command."""
        for _ in range(_RESIZE_ATTEMPTS):
            columns, rows = size = self._size
            try:
                async with self._engine.call(_ENGINE_SECONDS):
                    await self._command.resize(w=columns, h=rows)
            except Unavailable:
                return
            except EngineError:
                await asyncio.sleep(_RESIZE_RETRY_SECONDS)
                continue
            if size == self._size:
                return

    async def wait(self) -> int:
        await self._ended.wait()
        for _ in range(_EXIT_CHECKS):
            shown = await self._inspect()
            if not shown.get("Running"):
                return int(shown.get("ExitCode") or 0)
            await asyncio.sleep(_EXIT_CHECK_SECONDS)
        raise Unavailable("the exit code of the command was not observed")

    async def close(self) -> None:
        with suppress(Unavailable):
            await self._hang_up()
        tasks = [task for task in (self._task, self._resizing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(aiohttp.ClientError, OSError):
            await self._stream.close()

    async def _hang_up(self) -> None:
        """Sends SIGHUP to the command, and SIGKILL if that does not end it: the engine leaves it running."""
        for number in (signal.SIGHUP, signal.SIGKILL):
            is_sent = False
            for _ in range(_HANGUP_CHECKS):
                shown = await self._inspect()
                if not shown.get("Running"):
                    return
                # Docker records the pid a moment after the start.
                if not is_sent and (pid := int(shown.get("Pid") or 0)) > 0:
                    is_sent = True
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
                await asyncio.sleep(_HANGUP_CHECK_SECONDS)

    async def _inspect(self) -> Mapping[str, Any]:
        try:
            async with self._engine.call(_ENGINE_SECONDS):
                return await self._command.inspect()
        except EngineError as error:
            raise Unavailable(str(error)) from error
