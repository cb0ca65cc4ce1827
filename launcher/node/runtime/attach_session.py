"""
Sessions with the streams of a container: its output is read from its log, its input goes to its stream relay.

So a client that reads slowly delays neither the container nor other clients, and needs no memory.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import OutputStream, PodAttachOptions
from launcher.node.logs.log_reader import LogLineDecoder, LogReader
from launcher.node.shim import stream_relay
from launcher.store.backoff import wait_or_timeout

#: The interval at which a log is polled, which grows while nothing is written; shorter if the client waits for echoes.
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS, _MAX_ECHO_SECONDS, _POLL_FACTOR = 0.01, 0.25, 0.02, 1.5
_TOO_MANY = "too many clients are attached to the container: end one of them"


class StreamFollower:
    """One stream of a log, from now on."""

    def __init__(self, path: Path, stream: OutputStream) -> None:
        """Raises FileNotFoundError if there is no log."""
        self._reader, self._stream, self._decoder = LogReader(path), stream.encode(), LogLineDecoder()
        self._reader.skip_to_last(0)

    def read(self) -> bytes:
        """The next output; empty at the current end of the log."""
        while records := self._reader.read():
            if text := self._decoder.decode([each for each in records if _stream_of(each) == self._stream]):
                return text
        return b""

    def finished(self) -> bool:
        """Whether nothing more will be written; what was written before may still have to be read."""
        return self._reader.finished()

    def close(self) -> None:
        self._reader.close()


def _stream_of(record: bytes) -> bytes:
    """The stream in ``2024-05-01T12:00:00.123456789Z stdout F a line``."""
    return record[31:37]


class RelayConnection:
    """A connection to the stream relay of a run, for input or for sizes of the terminal."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    @classmethod
    async def connect(cls, directory: Path) -> Self | None:
        """Connects to the relay of the run in *directory*; None if its input has ended. Raises Unavailable."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            _connect(connection, directory)
            answer = await asyncio.get_running_loop().sock_recv(connection, 1)
        except BlockingIOError:
            answer = stream_relay.REFUSED
        except OSError:
            answer = b""
        except BaseException:
            connection.close()
            raise
        if answer == stream_relay.ACCEPTED:
            return cls(connection)
        connection.close()
        if answer == stream_relay.REFUSED:
            raise Unavailable(_TOO_MANY)
        return None

    async def send_input(self, data: bytes) -> None:
        """Returns when the relay has accepted *data*, or the input has ended."""
        loop = asyncio.get_running_loop()
        size = stream_relay.MAX_PACKET_BYTES
        with suppress(OSError):  # the container has ended
            for begin in range(0, len(data) or 1, size):
                await loop.sock_sendall(self._socket, stream_relay.INPUT + data[begin : begin + size])

    def send_size(self, columns: int, rows: int) -> None:
        with suppress(OSError):  # the container has ended
            self._socket.send(stream_relay.SIZE + struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        self._socket.close()


def _connect(connection: socket.socket, directory: Path) -> None:
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Through /proc, since the path of a socket is limited to 108 bytes. Such a connect does not block.
        connection.connect(f"/proc/self/fd/{folder}/{stream_relay.SOCKET}")
    finally:
        os.close(folder)


class LogAttachSession:
    """The streams of a container, whose output is in its log."""

    def __init__(
        self,
        followers: Mapping[OutputStream, StreamFollower],
        options: PodAttachOptions,
        connections: tuple[RelayConnection | None, RelayConnection | None] = (None, None),
    ) -> None:
        """*followers* are those of both streams; *connections* those for input and for sizes of the terminal."""
        self._followers, self._options = followers, options
        self._input, self._sizes = connections
        self._max_poll_seconds = _MAX_ECHO_SECONDS if options.stdin else _MAX_POLL_SECONDS
        self._detached = asyncio.Event()

    @classmethod
    async def open(cls, log: Path, options: PodAttachOptions, directory: Path | None = None) -> Self:
        """Attaches to the container with that log, and to the relay of the run in *directory*. Raises Unavailable."""
        followers: dict[OutputStream, StreamFollower] = {}
        connections: list[RelayConnection | None] = [None, None]
        try:
            for stream in ("stdout", "stderr"):
                followers[stream] = StreamFollower(log, stream)
            if directory is not None:
                for index, is_used in enumerate((options.stdin, options.tty)):
                    connections[index] = await RelayConnection.connect(directory) if is_used else None
        except (OSError, Unavailable) as error:
            for each in (*followers.values(), *connections):
                if each is not None:
                    each.close()
            raise Unavailable(str(error)) from error
        session = cls(followers, options, (connections[0], connections[1]))
        # Registers this client as one with input, whose end may be that of the container's input.
        await session.write(b"")
        return session

    async def read(self, stream: OutputStream) -> bytes:
        follower, interval = self._followers[stream], _MIN_POLL_SECONDS
        # Yields to the event loop: sending to a fast client never blocks.
        await asyncio.sleep(0)
        while True:
            # Checked before the last read, which then includes everything that was written before.
            has_ended = self._has_ended()
            if text := follower.read():
                return text
            if has_ended:
                return b""
            await wait_or_timeout(self._detached, interval)
            interval = min(self._max_poll_seconds, interval * _POLL_FACTOR)

    def _has_ended(self) -> bool:
        return self._detached.is_set() or self._followers["stdout"].finished()

    async def write(self, data: bytes) -> None:
        if self._input is not None:
            await self._input.send_input(data)

    async def close_stdin(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None
        if self._options.stdin and not self._options.ends_input:
            self._detached.set()

    def resize(self, columns: int, rows: int) -> None:
        if self._sizes is not None:
            self._sizes.send_size(columns, rows)

    async def wait(self) -> int:
        """Waits until the container terminates, or the client has detached."""
        while not self._has_ended():
            await wait_or_timeout(self._detached, self._max_poll_seconds)
        return 0

    async def close(self) -> None:
        self._detached.set()
        for each in (*self._followers.values(), self._input, self._sizes):
            if each is not None:
                each.close()
