"""
The connections of one ``kubectl port-forward``, as SPDY streams in one WebSocket.

The client opens two streams for each connection, with the same request id: ``error`` carries a message of the server,
``data`` the bytes in both directions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from launcher.api.http.spdy import (
    PROTOCOL_ERROR,
    Frame,
    OpenStream,
    Ping,
    ResetStream,
    SpdyDecoder,
    SpdyEncoder,
    StreamData,
)
from launcher.core.errors import LauncherError

#: A connection to a port of a pod.
PodConnection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CHUNK_BYTES = 65536
#: Frames of a connection that wait for the pod; if there are more, the client is not read from.
_MAX_WAITING = 32
_MAX_PORT = 2**16 - 1


@dataclass(slots=True)
class _ForwardedConnection:
    """One connection: its streams, and the client's data for the pod. None is the end of the data."""

    port: int
    streams: dict[str, int] = field(default_factory=dict)
    waiting: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_MAX_WAITING))
    task: asyncio.Task[None] | None = None


class PortForwardStreams:
    """The streams of one client."""

    def __init__(
        self, socket: web.WebSocketResponse, connect: Callable[[int], Awaitable[PodConnection]]
    ) -> None:
        """*connect* connects to a port of the pod. It raises Unavailable."""
        self._socket, self._connect = socket, connect
        self._decoder, self._encoder = SpdyDecoder(), SpdyEncoder()
        #: By request id, until both streams are open.
        self._opening: dict[str, _ForwardedConnection] = {}
        #: By data stream.
        self._connections: dict[int, _ForwardedConnection] = {}
        #: For the log: the ports of all connections.
        self.ports: list[int] = []

    async def run(self) -> None:
        """Forwards until the client disconnects. Raises SpdyError."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._decoder.feed(message.data):
                        await self._handle(frame)
        finally:
            tasks = [each.task for each in self._connections.values() if each.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, frame: Frame) -> None:
        match frame:
            case OpenStream():
                await self._open(frame)
            case StreamData(stream, data, is_last):
                await self._receive(stream, data, is_last=is_last)
            case ResetStream(stream):
                if (connection := self._connections.get(stream)) and connection.task is not None:
                    connection.task.cancel()
            case Ping(number):
                await self._send(self._encoder.ping(number))

    async def _open(self, opened: OpenStream) -> None:
        """Accepts a stream, and starts the connection once both of its streams are open."""
        kind, port = opened.headers.get("streamtype", ""), opened.headers.get("port", "")
        if (
            kind not in ("data", "error")
            or not port.isascii()
            or not port.isdigit()
            or not 0 < int(port) <= _MAX_PORT
        ):
            await self._send(self._encoder.reset(opened.stream, PROTOCOL_ERROR))
            return
        request = opened.headers.get("requestid", "")
        connection = self._opening.setdefault(request, _ForwardedConnection(int(port)))
        connection.streams[kind] = opened.stream
        if kind == "data":
            self._connections[opened.stream] = connection
        await self._send(self._encoder.reply(opened.stream))
        if len(connection.streams) == 2:
            del self._opening[request]
            self.ports.append(connection.port)
            connection.task = asyncio.create_task(self._forward(connection))

    async def _receive(self, stream: int, data: bytes, *, is_last: bool) -> None:
        """Passes data to the connection. It is dropped if the connection has ended."""
        connection = self._connections.get(stream)
        if connection is not None and data:
            await connection.waiting.put(data)
        if connection is not None and is_last:
            await connection.waiting.put(None)

    async def _forward(self, connection: _ForwardedConnection) -> None:
        """Connects to the pod, and copies until both sides have sent their last byte or either has disconnected."""
        message = ""
        try:
            reader, writer = await self._connect(connection.port)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._send_to_client(connection.streams["data"], reader))
                    group.create_task(_send_to_pod(connection, writer))
            except* OSError:
                pass  # the pod or the client has disconnected
            finally:
                # Closes it at once: nothing waits to be sent unless either side has disconnected.
                writer.transport.abort()
        except LauncherError as error:
            message = str(error)
        finally:
            del self._connections[connection.streams["data"]]
            # The client's next frame may wait for space.
            while not connection.waiting.empty():
                connection.waiting.get_nowait()
            with suppress(OSError):
                await self._send(
                    self._encoder.data(connection.streams["data"], b"", is_last=True)
                    + self._encoder.data(connection.streams["error"], message.encode(), is_last=True)
                )

    async def _send_to_client(self, stream: int, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._send(self._encoder.data(stream, data))
        await self._send(self._encoder.data(stream, b"", is_last=True))

    async def _send(self, data: bytes) -> None:
        await self._socket.send_bytes(data)


async def _send_to_pod(connection: _ForwardedConnection, writer: asyncio.StreamWriter) -> None:
    writer.transport.set_write_buffer_limits(0)  # so that everything is sent when drain returns
    while (data := await connection.waiting.get()) is not None:
        writer.write(data)
        await writer.drain()
    writer.write_eof()
