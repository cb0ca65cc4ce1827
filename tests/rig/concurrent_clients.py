"""
Clients that send one request each, in one process: ``python -m tests.rig.concurrent_clients HOST PORT COUNT AT_ONCE``.

It reads the request from its input, with ``%d`` for the number of the client. At most AT_ONCE requests are open at a
time. It prints ``sent`` when all are sent, and at the end the monotonic time of the last response, the bytes of all
responses, and how many of them had the status 200.
"""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from launcher.wiring.rendezvous import raise_open_file_limit
from tests.launcher_process import PROJECT

_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Responses:
    """The responses of all clients."""

    last: float
    size: int
    good: int


class ConcurrentClients:
    """The process with the clients."""

    def __init__(self, output: "Iterator[bytes]") -> None:
        self._output = output

    def wait_until_sent(self) -> None:
        """Return when all requests are sent."""
        assert next(self._output, b"") == b"sent\n"

    def responses(self) -> Responses:
        """Return when all responses are complete."""
        last, size, good = next(self._output).split()
        return Responses(float(last), int(size), int(good))


@contextmanager
def concurrent_clients(port: int, request: str, count: int, at_once: int) -> Iterator[ConcurrentClients]:
    """Start *count* clients."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.rig.concurrent_clients",
            "127.0.0.1",
            str(port),
            str(count),
            str(at_once),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request.encode())
        process.stdin.close()
        yield ConcurrentClients(iter(process.stdout))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass(slots=True)
class _Client:
    """One connection; the server closes it after its response."""

    socket: socket.socket
    good: bool | None = None
    size: int = 0

    def receive(self) -> bool:
        """Reads available data. Returns whether the response is complete."""
        data = self.socket.recv(2**20)
        self.size += len(data)
        if self.good is None and data:
            self.good = data.startswith(b"HTTP/1.1 200 ")
        return not data


def _connect(host: str, port: int, request: bytes) -> _Client:
    """Sends a request on a new connection."""
    connection = socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS)
    connection.sendall(request)
    connection.setblocking(False)
    return _Client(connection)


def _send_requests(host: str, port: int, count: int, at_once: int, request: bytes) -> None:
    epoll, open_clients = select.epoll(), dict[int, _Client]()
    sent = size = good = 0
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while sent < count or open_clients:
        while sent < count and len(open_clients) < at_once:
            client = _connect(host, port, request % sent)
            epoll.register(client.socket, select.EPOLLIN)
            open_clients[client.socket.fileno()] = client
            sent += 1
            if sent == count:
                print("sent", flush=True)
        assert time.monotonic() < deadline, "requests without a response"
        for file, _ in epoll.poll(1.0):
            client = open_clients[file]
            if client.receive():
                epoll.unregister(file)
                client.socket.close()
                size, good = size + client.size, good + bool(client.good)
                del open_clients[file]
    print(time.monotonic(), size, good, flush=True)


if __name__ == "__main__":
    raise_open_file_limit()
    host, port, count, at_once = sys.argv[1:]
    _send_requests(host, int(port), int(count), int(at_once), sys.stdin.buffer.read())
