"""
Rendezvous compared with FrameworkController's barrier, in which every pod reads the whole Framework every 10 s.

The clients run in another process than the launcher.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from tests.bench import Row, row
from tests.eventually import until
from tests.launcher_process import PROJECT
from tests.local.server import FRAMEWORKS
from tests.rig.concurrent_clients import concurrent_clients
from tests.rig.measured_launcher import AS_INSTALLED, processor_seconds
from tests.rig.rendezvous_server import NAME, ROLE

SIZES = (1_000, 5_000)
#: Pods that poll a barrier send requests at random times; this is how many are open at once.
_AT_ONCE = 100
#: The polling interval in seconds.
_INTERVAL = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of all requests."""

    #: Seconds from the last address, or from the first request, to the last response.
    seconds: float
    #: CPU seconds of the launcher.
    processor: float
    size: int


def rows() -> list[Row]:
    """The costs of both for each size."""
    return [each for pods in SIZES for each in _rows(pods)]


def _rows(pods: int) -> Iterator[Row]:
    with _rendezvous_launcher(pods) as launcher:
        barrier = launcher.barrier()
        rendezvous = launcher.rendezvous()
    prefix = f"{pods:,} pods"
    yield row(f"{prefix}: from the last address to the last response", rendezvous.seconds, "s")
    yield row(f"{prefix}: requests per pod", launcher.requests, "", at_most=1)
    yield row(f"{prefix}: CPU of the launcher per pod", rendezvous.processor / pods * 1e3, "ms")
    yield row(f"{prefix}: bytes per pod", rendezvous.size / pods / 1024, "KiB")
    yield row(f"{prefix}: barrier, requests per pod and minute", 60 / _INTERVAL, "")
    yield row(f"{prefix}: barrier, from the last address to the last response, at most", _INTERVAL, "s")
    yield row(
        f"{prefix}: barrier, one round: CPU of the launcher per pod", barrier.processor / pods * 1e3, "ms"
    )
    yield row(f"{prefix}: barrier, one round: bytes per pod", barrier.size / pods / 1024, "KiB")
    rounds = 60 / _INTERVAL
    minute = rounds * barrier.processor / rendezvous.processor
    yield row(f"{prefix}: CPU of one minute of the barrier / of the rendezvous", minute, "ratio", at_least=2)
    minute = rounds * barrier.size / rendezvous.size
    yield row(
        f"{prefix}: bytes of one minute of the barrier / of the rendezvous", minute, "ratio", at_least=2
    )


class _RendezvousLauncher:
    """A launcher with pods that wait for their peers."""

    def __init__(self, process: "subprocess.Popen[str]", pods: int) -> None:
        assert process.stdout is not None
        self._process, self._pods = process, pods
        port, self._path, self._token = process.stdout.readline().split()
        self._port = int(port)
        self.requests = 0.0

    def rendezvous(self) -> Cost:
        request = (
            f"GET {self._path}?format=all&task={ROLE}/%d HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {self._token}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        )
        before = processor_seconds(self._process.pid)
        with concurrent_clients(self._port, request, self._pods, self._pods) as clients:
            clients.wait_until_sent()
            until(lambda: self._query("waiters") == self._pods or None, "all requests wait")
            completed_at = self._query("complete")
            responses = clients.responses()
        assert responses.good == self._pods
        self.requests = self._served() / self._pods
        spent = processor_seconds(self._process.pid) - before
        return Cost(responses.last - completed_at, spent, responses.size)

    def barrier(self) -> Cost:
        request = f"GET {FRAMEWORKS}/{NAME}?x=%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        before, started_at = processor_seconds(self._process.pid), time.monotonic()
        with concurrent_clients(self._port, request, self._pods, _AT_ONCE) as clients:
            clients.wait_until_sent()
            responses = clients.responses()
        assert responses.good == self._pods
        spent = processor_seconds(self._process.pid) - before
        return Cost(responses.last - started_at, spent, responses.size)

    def _served(self) -> float:
        """The number of rendezvous requests that the launcher has served."""
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        counter = re.compile(r'launcher_http_requests_total\{.*resource="rendezvous".*verb="watch"\} (\S+)')
        return sum(float(match[1]) for line in lines if (match := counter.fullmatch(line)))

    def _query(self, command: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@contextmanager
def _rendezvous_launcher(pods: int) -> Iterator[_RendezvousLauncher]:
    with subprocess.Popen(
        [*AS_INSTALLED, sys.executable, "-m", "tests.rig.rendezvous_server", str(pods)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    ) as process:
        try:
            yield _RendezvousLauncher(process, pods)
        finally:
            process.kill()
