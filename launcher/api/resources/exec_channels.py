"""
The streams of a session in one WebSocket, as channels of Kubernetes.

The first byte of a message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 the result as a Status, 4 the size of the
terminal and, in version 5, 255 the end of another channel.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import orjson
from aiohttp import WSMsgType, web

from launcher.api.http.status import failure_status, status_of
from launcher.api.resources.pod_session import detect_lost_client, until_disconnected
from launcher.core.errors import LauncherError
from launcher.core.json_access import as_object
from launcher.core.pods.exec_session import ExecSession, OutputStream
from launcher.store.interface import Object

#: WebSocket subprotocols, the preferred one first.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _RESULT, _RESIZE, _CLOSE = 0, 3, 4, 255
_OUTPUTS: dict[OutputStream, int] = {"stdout": 1, "stderr": 2}
#: The largest size of a terminal.
_MAX_SIZE = 2**16 - 1
#: Time for the client to confirm the end of the connection.
_CLOSE_SECONDS = 5.0


class ExecChannels:
    """One WebSocket, and the session whose streams it carries."""

    def __init__(self, outputs: Sequence[OutputStream]) -> None:
        """*outputs* are the streams that the client reads."""
        self._outputs = outputs
        self._socket = web.WebSocketResponse(protocols=PROTOCOLS, timeout=_CLOSE_SECONDS)
        #: For the log: the exit code, or why there is none.
        self.result = "the connection was closed"

    async def run(
        self, request: web.Request, open_session: Callable[[], Awaitable[ExecSession]]
    ) -> web.WebSocketResponse:
        """Opens the WebSocket and the session, and copies streams until the command exits or the client disconnects."""
        await self._socket.prepare(request)
        detect_lost_client(request)
        try:
            session = await open_session()
            try:
                code = await self._copy_until_exit(session, request)
            finally:
                await session.close()
        except LauncherError as error:
            self.result = str(error)
            await self._finish(status_of(error)[1])
        else:
            if code is not None:
                self.result = f"exit code {code}"
                await self._finish(_result(code))
        return self._socket

    async def _finish(self, status: Object) -> None:
        with suppress(ConnectionError):  # the client has disconnected
            await self._send(_RESULT, orjson.dumps(status))
            await self._socket.close()

    async def _copy_until_exit(self, session: ExecSession, request: web.Request) -> int | None:
        """Returns the exit code; None if the client disconnects before. Raises Unavailable."""
        command = asyncio.create_task(self._run(session))
        client = [
            asyncio.create_task(self._receive(session)),
            asyncio.create_task(until_disconnected(request)),
        ]
        try:
            await asyncio.wait([command, *client], return_when=asyncio.FIRST_COMPLETED)
            return command.result() if command.done() else None
        finally:
            for task in (command, *client):
                task.cancel()
            await asyncio.wait([command, *client])

    async def _run(self, session: ExecSession) -> int:
        """Copies the output, and returns the exit code."""
        copies = [asyncio.create_task(self._copy_output(session, stream)) for stream in self._outputs]
        try:
            code = await session.wait()
            # What the command wrote before its exit.
            await asyncio.gather(*copies)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
        return code

    async def _copy_output(self, session: ExecSession, stream: OutputStream) -> None:
        with suppress(ConnectionError):  # the client has disconnected, which ends the session
            while data := await session.read(stream):
                await self._send(_OUTPUTS[stream], data)

    async def _receive(self, session: ExecSession) -> None:
        """Handles messages until the client disconnects."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                await self._handle(session, message.data.encode())
            elif message.type is WSMsgType.BINARY:
                await self._handle(session, message.data)

    async def _handle(self, session: ExecSession, message: bytes) -> None:
        channel, data = message[:1], message[1:]
        if channel == bytes([_STDIN]):
            await session.write(data)
        elif channel == bytes([_RESIZE]):
            _resize(session, data)
        elif channel == bytes([_CLOSE]) and data == bytes([_STDIN]):
            await session.close_stdin()

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)


def _resize(session: ExecSession, data: bytes) -> None:
    try:
        size = as_object(orjson.loads(data))
    except orjson.JSONDecodeError:
        return
    columns, rows = size.get("Width"), size.get("Height")
    if (
        isinstance(columns, int)
        and isinstance(rows, int)
        and 0 < min(columns, rows) <= max(columns, rows) <= _MAX_SIZE
    ):
        session.resize(columns, rows)


def _result(code: int) -> Object:
    """Returns the Status of a command that has exited."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: exit status {code}"
    return failure_status(500, "NonZeroExitCode", message, {"causes": causes})
