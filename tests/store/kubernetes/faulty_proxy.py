"""A TCP proxy between client and server that injects network faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class FaultyProxy:
    """Forwards bytes, with faults on request."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._open: set[asyncio.StreamWriter] = set()
        self._forwarding = asyncio.Event()
        self._forwarding.set()
        #: The number of responses to lose: the request is forwarded, and the connection is closed before the response.
        self.responses_to_lose = 0
        #: The number of connections so far.
        self.connections = 0
        self.url = ""

    def disconnect(self) -> None:
        """Aborts all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    def drop_data(self) -> None:
        """Drops all data silently."""
        self._forwarding.clear()

    async def serve(self, client: asyncio.StreamReader, responses: asyncio.StreamWriter) -> None:
        """Forwards one connection until it ends."""
        self.connections += 1
        server, requests = await asyncio.open_connection(self._host, self._port)
        self._open |= {responses, requests}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(client, requests, are_responses=False))
                group.create_task(self._forward(server, responses, are_responses=True))
        finally:
            self._open -= {responses, requests}
            responses.close()
            requests.close()

    async def _forward(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, are_responses: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._forwarding.wait()
                if are_responses and self.responses_to_lose:
                    self.responses_to_lose -= 1
                    target.transport.abort()
                    return
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def faulty_proxy(upstream: str) -> AsyncIterator[FaultyProxy]:
    """A proxy to *upstream* on a free port."""
    proxy = FaultyProxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.disconnect()
