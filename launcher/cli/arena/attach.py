"""``arena attach``: a command in a container of a job, with this terminal."""

import argparse
import asyncio
import os
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Thread

import aiohttp
import orjson

from launcher.cli.arena.jobs import check_type, job_named
from launcher.cli.arena.logs import instance_of
from launcher.cli.client.api_client import api_client
from launcher.cli.client.async_client import AsyncApiClient, run_with_client
from launcher.cli.errors import print_error
from launcher.converters.kubeflow.tfjob import CONTAINER

_STDIN, _STDOUT, _STDERR, _RESULT, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255


def attach(args: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    check_type(args.type)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()

    with api_client(args) as api:
        pod = instance_of(job_named(api, args.name, time.time()), args.instance).name
    parameters = [
        ("container", args.container or CONTAINER),
        *(("command", word) for word in args.words or ["sh"]),
        *((stream, "true") for stream in ("stdin", "stdout")),
        # A terminal has one stream for both.
        ("tty", "true") if terminal else ("stderr", "true"),
    ]

    async def work(api: AsyncApiClient) -> int:
        async with api.execute(pod, parameters) as socket:
            with _raw_terminal() if terminal else nullcontext():
                return await _Session(socket).run(terminal)

    return run_with_client(args, work)


class _Session:
    """Copies stdin to the command and its output to stdout and stderr, until the command exits."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def run(self, terminal: bool) -> int:
        """The exit code of the command."""
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
        if terminal:
            size = shutil.get_terminal_size()
            await self._send(_SIZE, orjson.dumps({"Width": size.columns, "Height": size.lines}))
        input_queue: asyncio.Queue[bytes] = asyncio.Queue()
        _read_input(loop, descriptor, input_queue)
        sender = asyncio.create_task(self._send_input(input_queue))
        try:
            return await self._read_output()
        finally:
            sender.cancel()

    async def _send_input(self, input_queue: "asyncio.Queue[bytes]") -> None:
        while data := await input_queue.get():
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
    """Start a daemon thread that puts the input into the queue."""

    def read() -> None:
        while not loop.is_closed():
            data = os.read(descriptor, 4096)
            if loop.is_closed():
                return
            loop.call_soon_threadsafe(input_queue.put_nowait, data)
            if not data:
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
