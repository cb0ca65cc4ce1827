"""
Pods that wait for each other, against FrameworkController's barrier, where each reads the whole Framework every 10 s.

Both ask the same launcher; those who ask are in a process of their own.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from tests.bench import Row, row
from tests.local.server import FRAMEWORKS, PROJECT, until
from tests.rig.askers import asking
from tests.rig.launching import AS_INSTALLED, processor_seconds
from tests.rig.meeting import NAME, ROLE

SIZES = (1_000, 5_000)
#: The barrier's pods come when they like; so many of them happen to ask at the same time.
_AT_ONCE = 100
#: Seconds after which each of them asks again.
_INTERVAL = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What it took until all had asked and were answered."""

    #: Seconds from when the last address was known, or from the first question, to the last answer.
    seconds: float
    #: Seconds of the launcher's processor.
    processor: float
    size: int


def rows() -> list[Row]:
    """Both ways, for each size."""
    return [each for pods in SIZES for each in _rows(pods)]


def _rows(pods: int) -> Iterator[Row]:
    with _meeting(pods) as meeting:
        barrier = meeting.barrier()
        ours = meeting.rendezvous()
    what = f"{pods:,} pods"
    yield row(f"{what}: last address known until last answer", ours.seconds, "s")
    yield row(f"{what}: requests of each", meeting.requests, "", at_most=1)
    yield row(f"{what}: launcher's CPU for each, from question to answer", ours.processor / pods * 1e3, "ms")
    yield row(f"{what}: bytes for each", ours.size / pods / 1024, "KiB")
    yield row(f"{what}: barrier, requests of each in a minute", 60 / _INTERVAL, "")
    yield row(f"{what}: barrier, last address known until last answer, at its interval", _INTERVAL, "s")
    yield row(f"{what}: barrier, one round: launcher's CPU for each", barrier.processor / pods * 1e3, "ms")
    yield row(f"{what}: barrier, one round: bytes for each", barrier.size / pods / 1024, "KiB")
    rounds = 60 / _INTERVAL
    minute = rounds * barrier.processor / ours.processor
    yield row(f"{what}: CPU of a minute at the barrier / of the rendezvous", minute, "ratio", at_least=2)
    minute = rounds * barrier.size / ours.size
    yield row(f"{what}: bytes of a minute at the barrier / of the rendezvous", minute, "ratio", at_least=2)


class _Meeting:
    """A launcher whose pods wait."""

    def __init__(self, process: "subprocess.Popen[str]", pods: int) -> None:
        assert process.stdout is not None
        self._process, self._pods = process, pods
        port, self._path, self._token = process.stdout.readline().split()
        self._port = int(port)
        self.requests = 0.0

    def rendezvous(self) -> Cost:
        question = (
            f"GET {self._path}?format=all&task={ROLE}/%d HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self._token}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        )
        before = processor_seconds(self._process.pid)
        with asking(self._port, question, self._pods, self._pods) as askers:
            askers.asked()
            until(lambda: self._say("waiters") == self._pods or None, "all wait")
            known = self._say("place")
            answered = askers.answered()
        assert answered.good == self._pods
        self.requests = self._answered() / self._pods
        spent = processor_seconds(self._process.pid) - before
        return Cost(answered.last - known, spent, answered.size)

    def barrier(self) -> Cost:
        question = f"GET {FRAMEWORKS}/{NAME}?x=%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        before, began = processor_seconds(self._process.pid), time.monotonic()
        with asking(self._port, question, self._pods, _AT_ONCE) as askers:
            askers.asked()
            answered = askers.answered()
        assert answered.good == self._pods
        spent = processor_seconds(self._process.pid) - before
        return Cost(answered.last - began, spent, answered.size)

    def _answered(self) -> float:
        """How often the launcher has answered somebody who waited, in any way."""
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        counted = 'launcher_http_requests_total{verb="watch",resource="rendezvous"'
        return sum(float(line.split()[-1]) for line in lines if line.startswith(counted))

    def _say(self, word: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@contextmanager
def _meeting(pods: int) -> Iterator[_Meeting]:
    with subprocess.Popen(
        [*AS_INSTALLED, sys.executable, "-m", "tests.rig.meeting", str(pods)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    ) as process:
        try:
            yield _Meeting(process, pods)
        finally:
            process.kill()
