"""A way to kube-apiserver on loopback that can be cut, silenced and slowed down."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum, auto
from pathlib import Path
from urllib.parse import urlsplit

import yaml

_SECONDS = 30.0
_PIECE = 65536
#: Seconds by which a piece comes late on a slow way.
_LATE = 0.1


class Way(Enum):
    """What becomes of the bytes between the two."""

    OPEN = auto()
    #: Each piece comes late.
    SLOW = auto()
    #: What is asked gets through, and no answer comes back.
    DEAF = auto()
    #: Nothing gets through, and nobody hangs up.
    FROZEN = auto()


class Proxy:
    """Passes bytes on as its way says, whatever they mean. A connection that has lost some is silent for good."""

    def __init__(self, upstream: str) -> None:
        place = urlsplit(upstream)
        self._host, self._port = str(place.hostname), place.port
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.way = Way.OPEN
        self.url = ""

    def cut(self) -> int:
        """Every connection ends at once, without a good-bye: how many there were."""

        async def abort() -> int:
            for writer in self._open:
                writer.transport.abort()
            return len(self._open) // 2

        return asyncio.run_coroutine_threadsafe(abort(), self._loop).result(_SECONDS)

    def run(self, started: threading.Event) -> None:
        """Serve until ``stop``."""
        with closing(self._loop):
            self._loop.run_until_complete(self._serve(started))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self, started: threading.Event) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await self._stop.wait()
        server.close()
        for writer in self._open:
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, back, Way.FROZEN))
                group.create_task(self._pass(there, writer, Way.FROZEN, Way.DEAF))
        except* OSError:
            pass
        finally:
            self._open -= {writer, back}
            for each in (writer, back):
                each.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *swallowed_in: Way
    ) -> None:
        """One direction, until either end hangs up."""
        silent = False
        while piece := await reader.read(_PIECE):
            if self.way is Way.SLOW:
                await asyncio.sleep(_LATE)
            silent = silent or self.way in swallowed_in
            if not silent:
                writer.write(piece)
                await writer.drain()
        raise ConnectionResetError


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    """The proxy, in a thread of its own."""
    proxy, started = Proxy(upstream), threading.Event()
    thread = threading.Thread(target=proxy.run, args=[started])
    thread.start()
    try:
        assert started.wait(_SECONDS), "the proxy does not start"
        yield proxy
    finally:
        proxy.stop()
        thread.join(_SECONDS)
        assert not thread.is_alive()


def kubeconfig_by(proxy: Proxy, kubeconfig: Path, directory: Path) -> Path:
    """That kubeconfig, with the same API server by way of the proxy."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = proxy.url
    path = directory / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
