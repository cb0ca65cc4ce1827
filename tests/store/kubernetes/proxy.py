"""A line between client and server on which a test can do what networks do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes on, until told to misbehave."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port
        self._open: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        #: So many answers get lost: their requests get through, and whoever waits is cut off.
        self.to_lose = 0
        #: How many connections were made so far.
        self.connections = 0
        self.url = ""

    def cut(self) -> None:
        """Cut every connection that there is."""
        for writer in list(self._open):
            writer.transport.abort()

    def hold(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        self._passing.clear()

    async def serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self.connections += 1
        server, requests = await asyncio.open_connection(self._host, self._port)
        self._open |= {answers, requests}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(client, requests, answers=False))
                both.create_task(self._pass(server, answers, answers=True))
        finally:
            self._open -= {answers, requests}
            answers.close()
            requests.close()

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._passing.wait()
                if answers and self.to_lose:
                    self.to_lose -= 1
                    target.transport.abort()
                    return
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def proxied(upstream: str) -> AsyncIterator[Proxy]:
    """A line to *upstream*, on a free port."""
    proxy = Proxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
