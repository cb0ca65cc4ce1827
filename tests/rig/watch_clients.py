"""
Many watching clients in one process: each sends one text over its connection and reads lines.

``python -m tests.rig.watch_clients HOST PORT COUNT MARK``, with the text on its input. It prints "ready" when each
client has received the first bytes of a response (or is connected, when there is no text), and then, for each line with
MARK, the monotonic time at which the last client has received it.
"""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.launcher_process import PROJECT

#: After this time the process exits.
_TIMEOUT_SECONDS = 60.0


class WatchClients:
    """The output of the process."""

    def __init__(self, data: "Iterator[bytes]") -> None:
        self._output = data

    def all_received(self) -> float:
        """The monotonic time at which the last client received the next line."""
        line = next(self._output, b"")
        assert line, "not all clients have received the line"
        return float(line)

    def all_ready(self) -> None:
        assert next(self._output, b"") == b"ready\n"


@contextmanager
def watch_clients(url: str, count: int, mark: str, text: str) -> Iterator[WatchClients]:
    """Starts *count* clients of *url*."""
    host, _, port = url.removeprefix("http://").partition(":")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rig.watch_clients", host, port, str(count), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(text.encode())
        process.stdin.close()
        yield WatchClients(iter(process.stdout))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _listen(host: str, port: int, count: int, mark: bytes, text: bytes) -> None:
    epoll, sockets = select.epoll(), dict[int, socket.socket]()
    for _ in range(count):
        connected = socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS)
        connected.sendall(text)
        if text:
            # One after the other: the backlog of a server is short.
            connected.recv(65536)
        connected.setblocking(False)
        epoll.register(connected, select.EPOLLIN)
        sockets[connected.fileno()] = connected
    print("ready", flush=True)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    received, remainders = 0, dict.fromkeys(sockets, b"")
    while time.monotonic() < deadline:
        for file, _ in epoll.poll(1.0, count):
            data = remainders[file] + sockets[file].recv(65536)
            found = mark in data
            received += found
            # The mark may be split between two reads, but counts once.
            remainders[file] = b"" if found else data[-len(mark) :]
        if received == count:
            print(time.monotonic(), flush=True)
            received = 0


if __name__ == "__main__":
    host, port, count, mark = sys.argv[1:]
    _listen(host, int(port), int(count), mark.encode(), sys.stdin.buffer.read())
