"""
Many who listen at once, in a process of their own: each sends one text over its connection, and waits for lines.

``python -m tests.rig.watchers HOST PORT COUNT MARK``, with the text on its input. It says when all are ready, which is
when each has got the first bytes of an answer (or, with nothing to send, is connected), and then, for each line with
MARK that all have got, the system's monotonic time at which the last of them got it.
"""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.local.server import PROJECT

#: Seconds after which nobody listens any more.
_PATIENCE = 60.0


class Watchers:
    """Those who listen, as seen from outside."""

    def __init__(self, said: "Iterator[bytes]") -> None:
        self._said = said

    def all_heard(self) -> float:
        """The monotonic time at which the last of them got the next line."""
        line = next(self._said, b"")
        assert line, "not all have heard"
        return float(line)

    def all_ready(self) -> None:
        assert next(self._said, b"") == b"ready\n"


@contextmanager
def listening(url: str, count: int, mark: str, text: str) -> Iterator[Watchers]:
    """*count* listeners at *url*."""
    host, _, port = url.removeprefix("http://").partition(":")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rig.watchers", host, port, str(count), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(text.encode())
        process.stdin.close()
        yield Watchers(iter(process.stdout))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _listen(host: str, port: int, count: int, mark: bytes, text: bytes) -> None:
    epoll, sockets = select.epoll(), dict[int, socket.socket]()
    for _ in range(count):
        connected = socket.create_connection((host, port), timeout=_PATIENCE)
        connected.sendall(text)
        if text:
            # One after the other: a server's queue of those who knock is short.
            connected.recv(65536)
        connected.setblocking(False)
        epoll.register(connected, select.EPOLLIN)
        sockets[connected.fileno()] = connected
    print("ready", flush=True)
    ends = time.monotonic() + _PATIENCE
    heard, rests = 0, dict.fromkeys(sockets, b"")
    while time.monotonic() < ends:
        for file, _ in epoll.poll(1.0, count):
            said = rests[file] + sockets[file].recv(65536)
            found = mark in said
            heard += found
            # A mark may come in two pieces, but counts once.
            rests[file] = b"" if found else said[-len(mark) :]
        if heard == count:
            print(time.monotonic(), flush=True)
            heard = 0


if __name__ == "__main__":
    where, at, number, sought = sys.argv[1:]
    _listen(where, int(at), int(number), sought.encode(), sys.stdin.buffer.read())
