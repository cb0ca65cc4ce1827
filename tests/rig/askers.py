"""
Many who ask one question each, in a process of their own: ``python -m tests.rig.askers HOST PORT COUNT AT_ONCE``.

The question is on its input, with ``%d`` for the number of whoever asks. At most AT_ONCE are under way at one time.
When all have been asked it prints ``asked``; in the end, the monotonic time at which the last was answered, the bytes
of all answers, and how many of them were 200.
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
from tests.local.server import PROJECT

#: Seconds after which nobody waits any more.
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Answered:
    """What all of them got."""

    last: float
    size: int
    good: int


class Askers:
    """Those who ask, as seen from outside."""

    def __init__(self, said: "Iterator[bytes]") -> None:
        self._said = said

    def asked(self) -> None:
        """Return when all have asked."""
        assert next(self._said, b"") == b"asked\n"

    def answered(self) -> Answered:
        """Return when all have their answers."""
        last, size, good = next(self._said).split()
        return Answered(float(last), int(size), int(good))


@contextmanager
def asking(port: int, question: str, count: int, at_once: int) -> Iterator[Askers]:
    """*count* who ask."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rig.askers", "127.0.0.1", str(port), str(count), str(at_once)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(question.encode())
        process.stdin.close()
        yield Askers(iter(process.stdout))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass(slots=True)
class _Asker:
    """One connection; the server closes it after its answer."""

    socket: socket.socket
    good: bool | None = None
    size: int = 0


def _ask(host: str, port: int, count: int, at_once: int, question: bytes) -> None:
    epoll, under_way = select.epoll(), dict[int, _Asker]()
    asked = size = good = 0
    ends = time.monotonic() + _PATIENCE
    while asked < count or under_way:
        while asked < count and len(under_way) < at_once:
            connected = socket.create_connection((host, port), timeout=_PATIENCE)
            connected.sendall(question % asked)
            connected.setblocking(False)
            epoll.register(connected, select.EPOLLIN)
            under_way[connected.fileno()] = _Asker(connected)
            asked += 1
            if asked == count:
                print("asked", flush=True)
        assert time.monotonic() < ends, "not all were answered"
        for file, _ in epoll.poll(1.0):
            asker = under_way[file]
            piece = asker.socket.recv(2**20)
            asker.size += len(piece)
            if asker.good is None and piece:
                asker.good = piece.startswith(b"HTTP/1.1 200 ")
            if not piece:
                epoll.unregister(file)
                asker.socket.close()
                size, good = size + asker.size, good + bool(asker.good)
                del under_way[file]
    print(time.monotonic(), size, good, flush=True)


if __name__ == "__main__":
    raise_open_file_limit()
    where, at, number, width = sys.argv[1:]
    _ask(where, int(at), int(number), int(width), sys.stdin.buffer.read())
