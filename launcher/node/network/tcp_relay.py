"""Passes the bytes of a TCP connection on to another one."""

import asyncio
from contextlib import suppress

from launcher.node.network.pod_network import Connection

_CHUNK_BYTES = 65536


async def relay(one: Connection, other: Connection) -> None:
    """Copies both directions until each has ended, and closes both connections."""
    await asyncio.gather(_copy(one[0], other[1]), _copy(other[0], one[1]))
    for _, writer in (one, other):
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies one direction of a connection; its end is passed on, and the other direction stays open."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
