"""
Clients of an HTTP server, in one process: each sends one request after the other over a persistent connection.

``python -m tests.rig.request_load``, with a Load as JSON on its input; the latencies come as JSON on its output.
"""

import asyncio
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median, quantiles

import orjson

from tests.launcher_process import PROJECT


@dataclass(frozen=True, slots=True)
class RequestLoad:
    """The request, its total number, and the number of clients."""

    url: str
    method: str
    path: str
    clients: int
    requests: int
    #: ``{number}`` in it is another number for each request.
    body: str = ""


@dataclass(frozen=True, slots=True)
class Latencies:
    """The seconds of all requests together, and of each."""

    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def p50(self) -> float:
        """The latency that half of the requests do not exceed."""
        return median(self.latencies)

    @property
    def p99(self) -> float:
        """The latency that one in a hundred exceeds."""
        return quantiles(self.latencies, n=100)[98]


def measure_requests(load: RequestLoad) -> Latencies:
    """Send the requests of *load* from another process. All must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rig.request_load"],
        input=orjson.dumps(asdict(load)),
        capture_output=True,
        cwd=PROJECT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return Latencies(**orjson.loads(done.stdout))


class _Client(asyncio.Protocol):
    """One connection, with a minimal HTTP parser."""

    def __init__(self, load: RequestLoad, numbers: "list[int]", latencies: list[float]) -> None:
        self._load, self._numbers, self._latencies = load, numbers, latencies
        self._host = load.url.removeprefix("http://")
        self._received = bytearray()
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the server has closed the connection"))

    def send_next(self) -> None:
        """Send the next request, if one is left."""
        assert self._transport is not None
        if not self._numbers:
            self.done.set_result(None)
            self._transport.close()
            return
        body = self._load.body.replace("{number}", str(self._numbers.pop())).encode()
        head = (
            f"{self._load.method} {self._load.path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._sent_at = time.perf_counter()
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._received) < end + 4 + length:
            return
        self._latencies.append(time.perf_counter() - self._sent_at)
        if not head.startswith(b"http/1.1 2"):
            self.done.set_exception(AssertionError(bytes(self._received)))
            return
        self._received.clear()
        self.send_next()


async def _send_load(load: RequestLoad) -> Latencies:
    loop = asyncio.get_running_loop()
    host, _, port = load.url.removeprefix("http://").partition(":")
    numbers, latencies = list(range(load.requests)), list[float]()
    clients = []
    for _ in range(load.clients):
        _, client = await loop.create_connection(lambda: _Client(load, numbers, latencies), host, int(port))
        clients.append(client)
    start = time.perf_counter()
    for client in clients:
        client.send_next()
    await asyncio.wait_for(asyncio.gather(*(client.done for client in clients)), 100)
    return Latencies(time.perf_counter() - start, latencies)


if __name__ == "__main__":
    load = RequestLoad(**orjson.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(orjson.dumps(asyncio.run(_send_load(load))))
