"""A command in a container, with the standard streams of this process or with its terminal."""

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Thread

import aiohttp
import orjson

from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.errors import print_error

_STDIN, _STDOUT, _STDERR, _RESULT, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK_BYTES = 65536
#: Chunks of input that are read before they are sent.
_MAX_CHUNKS = 16


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A command in a container of a pod."""

    pod: str
    container: str
    command: Sequence[str]
    stdin: bool
    tty: bool

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The query parameters of the API."""
        return [
            ("container", self.container),
            *(("command", word) for word in self.command),
            *((("stdin", "true"),) if self.stdin else ()),
            ("stdout", "true"),
            # A terminal has one stream for both.
            ("tty", "true") if self.tty else ("stderr", "true"),
        ]


def has_terminal() -> bool:
    """Whether the input and the output of this process are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def execute(api: AsyncApiClient, request: ExecRequest) -> int:
    """Runs the command until it exits, and returns its exit code."""
    async with api.execute(request.pod, request.parameters) as socket:
        with _raw_terminal() if request.tty and request.stdin else nullcontext():
            return await _ClientSession(socket).run(request)


class _ClientSession:
    """Copies stdin to the command and its output to stdout and stderr, until the command exits."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._input: asyncio.Queue[bytes] = asyncio.Queue(_MAX_CHUNKS)
        self._resized = asyncio.Event()

    async def run(self, request: ExecRequest) -> int:
        """The exit code of the command."""
        tasks = []
        if request.tty:
            self._resized.set()
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._resized.set)
            tasks.append(asyncio.create_task(self._send_sizes()))
        if request.stdin:
            _read_input(asyncio.get_running_loop(), sys.stdin.fileno(), self._input)
            tasks.append(asyncio.create_task(self._send_input()))
        try:
            return await self._read_output()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_sizes(self) -> None:
        """Sends the size of the terminal, now and after each change."""
        while await self._resized.wait():
            self._resized.clear()
            size = shutil.get_terminal_size()
            await self._send(_SIZE, orjson.dumps({"Width": size.columns, "Height": size.lines}))

    async def _send_input(self) -> None:
        while data := await self._input.get():
            await self._send(_STDIN, data)
        if self._socket.protocol == "v5.channel.k8s.io":
            await self._send(_CLOSE, bytes([_STDIN]))

    async def _read_output(self) -> int:
        async for message in self._socket:
            channel, data = message.data[0], message.data[1:]
            if channel in (_STDOUT, _STDERR):
                out = (sys.stdout if channel == _STDOUT else sys.stderr).buffer
                out.write(data)
                out.flush()
            elif channel == _RESULT:
                return _exit_code(data)
        print_error("the connection was closed before the command exited")
        return 1

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)


def _read_input(
    loop: asyncio.AbstractEventLoop, descriptor: int, input_queue: "asyncio.Queue[bytes]"
) -> None:
    """Start a daemon thread that puts the input into the queue; it waits while the queue is full."""

    def read() -> None:
        data = b"\0"
        while data:
            data = os.read(descriptor, _CHUNK_BYTES)
            put = input_queue.put(data)
            try:
                asyncio.run_coroutine_threadsafe(put, loop).result()
            except (RuntimeError, CancelledError):  # the command has exited
                put.close()
                return

    Thread(target=read, daemon=True).start()


def _exit_code(data: bytes) -> int:
    status = orjson.loads(data)
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    codes = [each["message"] for each in causes if each.get("reason") == "ExitCode"]
    if not codes:
        print_error(str(status.get("message")))
    return int(codes[0]) if codes else 1


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Inside, the terminal passes on every key unchanged."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
