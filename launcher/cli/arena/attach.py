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
from launcher.cli.client.api_client import ApiClient, run_with_client
from launcher.cli.errors import print_error
from launcher.converters.kubeflow.tfjob import CONTAINER

_STDIN, _STDOUT, _STDERR, _RESULT, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255


def attach(given: argparse.Namespace) -> int:
    """Run the command; its exit code."""
    check_type(given.type)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()

    async def work(api: ApiClient) -> int:
        job = await job_named(api, given.name, time.time())
        parameters = [
            ("container", given.container or CONTAINER),
            *(("command", word) for word in given.words or ["sh"]),
            *((stream, "true") for stream in ("stdin", "stdout")),
            # A terminal shows both in one.
            ("tty", "true") if terminal else ("stderr", "true"),
        ]
        async with api.execute(instance_of(job, given.instance).name, parameters) as socket:
            with _raw() if terminal else nullcontext():
                return await _Session(socket).run(terminal)

    return run_with_client(given, work)


class _Session:
    """What is typed goes there, what is written comes here, until the command has ended."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def run(self, terminal: bool) -> int:
        """The exit code of the command."""
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
        if terminal:
            size = shutil.get_terminal_size()
            await self._send(_SIZE, orjson.dumps({"Width": size.columns, "Height": size.lines}))
        typed: asyncio.Queue[bytes] = asyncio.Queue()
        _listen(loop, descriptor, typed)
        typist = asyncio.create_task(self._type(typed))
        try:
            return await self._read()
        finally:
            typist.cancel()

    async def _type(self, typed: "asyncio.Queue[bytes]") -> None:
        while data := await typed.get():
            await self._send(_STDIN, data)
        if self._socket.protocol == "v5.channel.k8s.io":
            await self._send(_CLOSE, bytes([_STDIN]))

    async def _read(self) -> int:
        async for message in self._socket:
            channel, data = message.data[0], message.data[1:]
            if channel in (_STDOUT, _STDERR):
                out = (sys.stdout if channel == _STDOUT else sys.stderr).buffer
                out.write(data)
                out.flush()
            elif channel == _RESULT:
                return _exit_code(data)
        print_error("the connection ended before the command did")
        return 1

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)


def _listen(loop: asyncio.AbstractEventLoop, descriptor: int, typed: "asyncio.Queue[bytes]") -> None:
    """Have a thread put what is typed into the queue; the program's end does not wait for it."""

    def listen() -> None:
        while not loop.is_closed():
            data = os.read(descriptor, 4096)
            if loop.is_closed():
                return
            loop.call_soon_threadsafe(typed.put_nowait, data)
            if not data:
                return

    Thread(target=listen, daemon=True).start()


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
def _raw() -> Iterator[None]:
    """Inside, every key is sent as it is."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
