"""The client's side of SPDY/3.1, as kubectl port-forward uses it."""

import struct
import zlib

import aiohttp
from aiohttp import WSMsgType

from launcher.api.http.spdy import HEADER_DICTIONARY
from tests.eventually import TIMEOUT_SECONDS


class SpdyClient:
    """Streams in one WebSocket. Streams of the client have odd numbers."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._compressor = zlib.compressobj(zdict=HEADER_DICTIONARY)
        self._decompressor = zlib.decompressobj(zdict=HEADER_DICTIONARY)
        self._next = 1
        self._input = b""
        #: The streams that were accepted, reset, or ended by the server.
        self.replied: set[int] = set()
        self.reset: set[int] = set()
        self.ended: set[int] = set()
        #: The data of each stream so far.
        self.data: dict[int, bytes] = {}
        self.pings: list[int] = []

    async def connect(self, port: int, request: int = 0) -> tuple[int, int]:
        """Opens the error stream and the data stream of one connection, and returns both."""
        error = await self.open_stream(streamtype="error", port=str(port), requestid=str(request))
        await self.send(error, b"", is_last=True)
        return error, await self.open_stream(streamtype="data", port=str(port), requestid=str(request))

    async def open_stream(self, **headers: str) -> int:
        """Opens a stream, and returns its number."""
        stream, self._next = self._next, self._next + 2
        texts = [text.encode() for item in headers.items() for text in item]
        block = struct.pack(">I", len(headers)) + b"".join(
            struct.pack(">I", len(text)) + text for text in texts
        )
        compressed = self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        await self._send_control(1, struct.pack(">IIH", stream, 0, 0) + compressed)
        return stream

    async def send(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        """Sends data."""
        await self.socket.send_bytes(struct.pack(">II", stream, is_last << 24 | len(data)) + data)

    async def send_reset(self, stream: int) -> None:
        await self._send_control(3, struct.pack(">II", stream, 5))

    async def send_ping(self, number: int) -> None:
        await self._send_control(6, struct.pack(">I", number))

    async def _send_control(self, kind: int, payload: bytes) -> None:
        await self.socket.send_bytes(struct.pack(">HHI", 0x8003, kind, len(payload)) + payload)

    async def receive(self) -> bool:
        """Handles the next message. Returns whether there was one before the connection was closed."""
        message = await self.socket.receive(TIMEOUT_SECONDS)
        if message.type is not WSMsgType.BINARY:
            return False
        self._input += message.data
        while len(self._input) >= 8:
            first, second, length = struct.unpack(">HHI", self._input[:8])
            flags, length = length >> 24, length & 0xFFFFFF
            payload, self._input = self._input[8 : 8 + length], self._input[8 + length :]
            assert len(payload) == length
            self._handle(first, second, flags, payload)
        return True

    def _handle(self, first: int, second: int, flags: int, payload: bytes) -> None:
        if not first & 0x8000:
            self.data[second] = self.data.get(second, b"") + payload
            if flags & 1:
                self.ended.add(second)
            return
        (number,) = struct.unpack_from(">I", payload)
        if second == 2:
            assert self._decompressor.decompress(payload[4:]) == struct.pack(">I", 0)
            self.replied.add(number)
        elif second == 3:
            self.reset.add(number)
        else:
            assert second == 6
            self.pings.append(number)

    async def until_ended(self, *streams: int) -> None:
        """Waits until the server has ended these streams."""
        while not self.ended.issuperset(streams):
            assert await self.receive(), self.data

    async def until_data(self, stream: int, data: bytes) -> None:
        """Waits until the server has sent *data*."""
        while data not in self.data.get(stream, b""):
            assert await self.receive(), self.data
