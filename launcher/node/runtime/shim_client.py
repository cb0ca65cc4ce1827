"""The client of the shim: starts it and sends it requests."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

import launcher
from launcher.core.errors import Unavailable
from launcher.node.shim.main import SOCKET

Json = dict[str, Any]

_HELLO_TIMEOUT_SECONDS = 20.0
#: Imports only the shim's own package, and nothing of site-packages.
_PROGRAM = (
    "import sys; sys.path.append({root!r}); from launcher.node.shim.main import main; main(*sys.argv[1:])"
)
#: The message of requests that fail because there is no connection.
SHIM_EXITED = "the container shim exited and is being restarted"


async def start_shim(data: Path, options: Json) -> None:
    """Starts a shim for this data directory, unless one is running. Raises Unavailable."""
    root = str(Path(launcher.__file__).parent.parent)
    program = _PROGRAM.format(root=root)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-X", "utf8", "-c", program, str(data), json.dumps(options)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # A Ctrl-C in the launcher's terminal must not end it.
        start_new_session=True,
    )
    _, output = await process.communicate()
    if process.returncode != 0:
        error = output.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(f"the container shim of {data} cannot be started: {error}")


class ShimConnection(asyncio.Protocol):
    """A connection to the shim. Responses are matched by number; other messages are passed to *on_message*."""

    def __init__(self, on_message: Callable[[Json], None]) -> None:
        self._on_message = on_message
        self._transport: asyncio.Transport | None = None
        self._input = b""
        self._responses: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        loop = asyncio.get_running_loop()
        #: Set when the connection is closed.
        self.closed = asyncio.Event()
        #: The shim's first message.
        self.hello: asyncio.Future[Json] = loop.create_future()

    @classmethod
    async def connect(cls, data: Path, on_message: Callable[[Json], None]) -> "ShimConnection":
        """Connects to the shim of *data* and waits for its hello. Raises OSError if none listens, Unavailable."""
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
        client = socket.socket(socket.AF_UNIX)
        try:
            client.setblocking(False)
            # Through /proc, since the path of a socket is limited to 108 bytes. Such a connect does not block.
            client.connect(f"/proc/self/fd/{folder}/{SOCKET}")
        except BaseException:
            client.close()
            raise
        finally:
            os.close(folder)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: cls(on_message), sock=client)
        try:
            async with asyncio.timeout(_HELLO_TIMEOUT_SECONDS):
                await asyncio.shield(connection.hello)
        except TimeoutError as error:
            connection.close()
            raise Unavailable(
                f"the container shim of {data} does not respond; see keeper.log there"
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            message: Json = orjson.loads(line)
            if "hello" in message:
                self.hello.set_result(message)
            elif (response := self._responses.pop(message.get("n", 0), None)) is not None:
                if not response.done():
                    response.set_result(message)
            else:
                self._on_message(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's own signature
        self.closed.set()
        for response in (*self._responses.values(), self.hello):
            if not response.done():
                response.set_exception(Unavailable(SHIM_EXITED))
                response.exception()  # marks it as retrieved: the caller may have been cancelled
        self._responses.clear()

    async def request(self, operation: str, **fields: Any) -> Json:
        """Sends a request and returns the response. Raises Unavailable if the connection is lost before."""
        return await self.send(operation, **fields)

    def send(self, operation: str, *, descriptors: Sequence[int] = (), **fields: Any) -> asyncio.Future[Json]:
        """Sends a request, with copies of *descriptors*, and returns the future response. Raises Unavailable."""
        if self._transport is None or self.closed.is_set():
            raise Unavailable(SHIM_EXITED)
        self._number += 1
        response: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._responses[self._number] = response
        # Not orjson: a path or an argument may contain bytes that are not UTF-8.
        message = json.dumps({"op": operation, "n": self._number, **fields}).encode() + b"\n"
        self._transport.write(self._send_descriptors(message, descriptors) if descriptors else message)
        return response

    def _send_descriptors(self, message: bytes, descriptors: Sequence[int]) -> bytes:
        """Sends *descriptors* with the beginning of *message*, and returns the rest of it."""
        assert self._transport is not None
        connection = os.dup(self._transport.get_extra_info("socket").fileno())
        with socket.socket(fileno=connection) as copy:
            return message[socket.send_fds(copy, [message], descriptors) :]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
