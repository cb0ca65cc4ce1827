"""Sessions of commands in containers that are processes of this machine."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import OutputStream, PodExecOptions
from launcher.node.container_runtime import RunId
from launcher.node.runtime.shim_client import Json, ShimConnection

_CHUNK_BYTES = 65536
#: Ctrl-D, the end of the input of a terminal.
_END_OF_INPUT = b"\x04"


@dataclass(frozen=True, slots=True)
class _Streams:
    """The descriptors of a session."""

    tty: bool
    #: Input, output and errors of the command, until it has them.
    command: list[int] = field(default_factory=list)
    #: Those of this process.
    outputs: dict[OutputStream, int] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)

    @classmethod
    def open(cls, options: PodExecOptions) -> Self:
        """Opens a terminal, or a pipe for each stream in use. Raises OSError."""
        streams = cls(options.tty)
        try:
            streams._open(options)
        except OSError:
            streams.close()
            raise
        return streams

    def _open(self, options: PodExecOptions) -> None:
        if options.tty:
            ours, theirs = os.openpty()
            os.set_blocking(ours, False)
            self.outputs["stdout"] = ours
            self.command.append(theirs)
            if options.stdin:
                self.inputs.append(os.dup(ours))
            return
        if options.stdin:
            theirs, ours = os.pipe()
            os.set_blocking(ours, False)
            self.inputs.append(ours)
        else:
            theirs = os.open(os.devnull, os.O_RDONLY)
        self.command.append(theirs)
        self._open_output("stdout", is_used=options.stdout)
        self._open_output("stderr", is_used=options.stderr)

    def _open_output(self, stream: OutputStream, *, is_used: bool) -> None:
        if is_used:
            ours, theirs = os.pipe()
            os.set_blocking(ours, False)
            self.outputs[stream] = ours
        else:
            theirs = os.open(os.devnull, os.O_WRONLY)
        self.command.append(theirs)

    def close_command(self) -> None:
        """Closes the command's descriptors, of which it has copies."""
        while self.command:
            os.close(self.command.pop())

    def close_input(self) -> None:
        while self.inputs:
            os.close(self.inputs.pop())

    def close(self) -> None:
        self.close_command()
        self.close_input()
        while self.outputs:
            os.close(self.outputs.popitem()[1])


class ProcessExecSession:
    """
    A command in a container, with pipes or a terminal as its streams.

    Each session has a connection to the shim. When it is closed, also because the launcher is killed, the command ends.
    """

    def __init__(self, connection: ShimConnection, streams: _Streams, exited: "asyncio.Future[Json]") -> None:
        """*exited* is the response with the exit code."""
        self._connection, self._streams, self._exited = connection, streams, exited

    @classmethod
    async def open(cls, data: Path, run: RunId, options: PodExecOptions) -> Self:
        """Starts the command in *run* of the shim of *data*. Raises Unavailable."""
        try:
            connection = await ShimConnection.connect(data, lambda _: None)
        except OSError as error:
            raise Unavailable(f"the container shim of {data} does not respond: {error}") from error
        try:
            streams = _Streams.open(options)
        except OSError as error:
            connection.close()
            raise Unavailable(f"the streams of the command cannot be opened: {error}") from error
        # A terminal is all of its streams.
        descriptors = streams.command * 3 if options.tty else streams.command
        exited = connection.send(
            "open", descriptors=descriptors, run=run, argv=list(options.command), tty=options.tty
        )
        streams.close_command()
        return cls(connection, streams, exited)

    async def read(self, stream: OutputStream) -> bytes:
        file = self._streams.outputs[stream]
        loop = asyncio.get_running_loop()
        while True:
            # Before the read: what the command wrote before its exit is in the pipe.
            has_exited = self._exited.done()
            try:
                return os.read(file, _CHUNK_BYTES)
            except BlockingIOError:
                if has_exited:
                    return b""  # a process in the background has the stream
            except OSError:
                return b""  # no process has the terminal
            await self._ready(loop.add_reader, loop.remove_reader, file)

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        while data and self._streams.inputs and not self._exited.done():
            file = self._streams.inputs[0]
            try:
                data = data[os.write(file, data) :]
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer, file)
            except OSError:
                return  # the command has closed its input

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], bool], file: int) -> None:
        """Waits until *file* is ready, or the command has exited."""
        ready = asyncio.Event()

        def set_ready(_: object = None) -> None:
            ready.set()

        add(file, set_ready)
        self._exited.add_done_callback(set_ready)
        try:
            await ready.wait()
        finally:
            self._exited.remove_done_callback(set_ready)
            remove(file)

    async def close_stdin(self) -> None:
        if self._streams.tty:
            await self.write(_END_OF_INPUT)
        self._streams.close_input()

    def resize(self, columns: int, rows: int) -> None:
        if self._streams.tty:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            with suppress(OSError):
                fcntl.ioctl(self._streams.outputs["stdout"], termios.TIOCSWINSZ, size)

    async def wait(self) -> int:
        response = await asyncio.shield(self._exited)
        if "error" in response:
            raise Unavailable(response["error"])
        code: int = response["code"]
        return code

    async def close(self) -> None:
        self._connection.close()
        self._streams.close()
