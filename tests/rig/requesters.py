"""
Clients of an HTTP server, in a process of their own: each sends one request after the other over a connection it keeps.

``python -m tests.rig.requesters``, with a Load as JSON on its input; the latencies come as JSON on its output.
"""

import asyncio
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median, quantiles

import orjson

from tests.local.server import PROJECT


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked, how often in all, and by how many at once."""

    url: str
    method: str
    path: str
    clients: int
    requests: int
    #: ``{number}`` in it is another number for each request.
    body: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """How it went: seconds in all, and those of each request."""

    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def half(self) -> float:
        """The latency that half of the requests do not exceed."""
        return median(self.latencies)

    @property
    def most(self) -> float:
        """The latency that one in a hundred exceeds."""
        return quantiles(self.latencies, n=100)[98]


def answers_to(load: Load) -> Answers:
    """Put *load* on a server, from another process. Every request must have succeeded."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rig.requesters"],
        input=orjson.dumps(asdict(load)),
        capture_output=True,
        cwd=PROJECT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return Answers(**orjson.loads(done.stdout))


class _Client(asyncio.Protocol):
    """One connection. Knows just as much HTTP as the servers here speak."""

    def __init__(self, load: Load, numbers: "list[int]", latencies: list[float]) -> None:
        self._load, self._numbers, self._latencies = load, numbers, latencies
        self._host = load.url.removeprefix("http://")
        self._coming = bytearray()
        self._began = 0.0
        self._transport: asyncio.Transport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(exc or ConnectionResetError("the server has closed the connection"))

    def ask(self) -> None:
        """Send the next request, if one is left."""
        assert self._transport is not None
        if not self._numbers:
            self.over.set_result(None)
            self._transport.close()
            return
        body = self._load.body.replace("{number}", str(self._numbers.pop())).encode()
        head = (
            f"{self._load.method} {self._load.path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._began = time.perf_counter()
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        self._coming += data
        end = self._coming.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._coming[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._coming) < end + 4 + length:
            return
        self._latencies.append(time.perf_counter() - self._began)
        if not head.startswith(b"http/1.1 2"):
            self.over.set_exception(AssertionError(bytes(self._coming)))
            return
        self._coming.clear()
        self.ask()


async def _put(load: Load) -> Answers:
    loop = asyncio.get_running_loop()
    host, _, port = load.url.removeprefix("http://").partition(":")
    numbers, latencies = list(range(load.requests)), list[float]()
    clients = []
    for _ in range(load.clients):
        _, client = await loop.create_connection(lambda: _Client(load, numbers, latencies), host, int(port))
        clients.append(client)
    began = time.perf_counter()
    for client in clients:
        client.ask()
    await asyncio.wait_for(asyncio.gather(*(client.over for client in clients)), 100)
    return Answers(time.perf_counter() - began, latencies)


if __name__ == "__main__":
    given = Load(**orjson.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(orjson.dumps(asyncio.run(_put(given))))
