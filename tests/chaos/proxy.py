"""A loopback proxy to kube-apiserver that can cut, silence and delay connections."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum, auto
from pathlib import Path
from urllib.parse import urlsplit

import yaml

_TIMEOUT_SECONDS = 30.0
_CHUNK_BYTES = 65536
#: Delay of each chunk on a slow connection.
_DELAY_SECONDS = 0.1


class ForwardingMode(Enum):
    """How bytes are forwarded."""

    OPEN = auto()
    #: Each chunk is delayed.
    SLOW = auto()
    #: Requests are forwarded, responses are not.
    NO_RESPONSES = auto()
    #: Nothing is forwarded, and no connection is closed.
    FROZEN = auto()


class Proxy:
    """Forwards bytes according to its mode. A connection that has lost bytes stays silent."""

    def __init__(self, upstream: str) -> None:
        url = urlsplit(upstream)
        self._host, self._port = str(url.hostname), url.port
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.mode = ForwardingMode.OPEN
        self.url = ""

    def cut(self) -> int:
        """Closes all connections and returns their number."""

        async def abort() -> int:
            for writer in self._open:
                writer.transport.abort()
            return len(self._open) // 2

        return asyncio.run_coroutine_threadsafe(abort(), self._loop).result(_TIMEOUT_SECONDS)

    def run(self, started: threading.Event) -> None:
        """Serves until ``stop``."""
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
            upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, upstream_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, upstream_writer, ForwardingMode.FROZEN))
                group.create_task(
                    self._forward(upstream_reader, writer, ForwardingMode.FROZEN, ForwardingMode.NO_RESPONSES)
                )
        except* OSError:
            pass
        finally:
            self._open -= {writer, upstream_writer}
            for stream in (writer, upstream_writer):
                stream.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *blocked_modes: ForwardingMode
    ) -> None:
        """Forwards one direction until either end closes."""
        silent = False
        while chunk := await reader.read(_CHUNK_BYTES):
            if self.mode is ForwardingMode.SLOW:
                await asyncio.sleep(_DELAY_SECONDS)
            silent = silent or self.mode in blocked_modes
            if not silent:
                writer.write(chunk)
                await writer.drain()
        raise ConnectionResetError


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    """Runs the proxy in a thread."""
    proxy, started = Proxy(upstream), threading.Event()
    thread = threading.Thread(target=proxy.run, args=[started])
    thread.start()
    try:
        assert started.wait(_TIMEOUT_SECONDS), "the proxy does not start"
        yield proxy
    finally:
        proxy.stop()
        thread.join(_TIMEOUT_SECONDS)
        assert not thread.is_alive()


def kubeconfig_through(proxy: Proxy, kubeconfig: Path, directory: Path) -> Path:
    """Returns the kubeconfig with the proxy as API server."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = proxy.url
    path = directory / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
