"""Executes commands in containers of the engine."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from aiodocker.execs import Exec
from aiodocker.stream import Stream

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import PodExecOptions
from launcher.node.runtime.docker_engine import DockerEngine, EngineError
from launcher.node.runtime.docker_streams import DockerStreams

#: Exit codes, those of shells and of ``timeout``.
_TIMED_OUT, _NOT_EXECUTABLE = 124, 126
_MAX_OUTPUT_BYTES = 10 * 1024
#: The time in which the engine has to start a command and to report its exit code, beside its own time limit.
_ENGINE_SECONDS = 30.0
#: Ctrl-D, the end of the input of a terminal.
_END_OF_INPUT = b"\x04"
#: The exit code may be recorded a moment after the end of the streams.
_EXIT_CHECKS, _EXIT_CHECK_SECONDS = 100, 0.05
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


class DockerExecSession(DockerStreams):
    """A command in a container of the engine, with streams."""

    def __init__(self, engine: DockerEngine, command: Exec, stream: Stream, options: PodExecOptions) -> None:
        super().__init__(stream, options, self._resize_command)
        self._engine, self._command = engine, command

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

    async def _resize_command(self, columns: int, rows: int) -> None:
        async with self._engine.call(_ENGINE_SECONDS):
            await self._command.resize(w=columns, h=rows)

    async def close_stdin(self) -> None:
        if self._tty:
            await self.write(_END_OF_INPUT)
        else:
            self.end_input()

    async def wait(self) -> int:
        await self.ended.wait()
        for _ in range(_EXIT_CHECKS):
            shown = await self._inspect()
            if not shown.get("Running"):
                return int(shown.get("ExitCode") or 0)
            await asyncio.sleep(_EXIT_CHECK_SECONDS)
        raise Unavailable("the exit code of the command was not observed")

    async def close(self) -> None:
        with suppress(Unavailable):
            await self._hang_up()
        await self.close_streams()

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
