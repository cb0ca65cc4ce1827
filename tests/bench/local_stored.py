"""
A launcher with many stored Frameworks: its restart, and lists.

A restart is compared with reading the same rows: with SQLite from both tables, and with orjson for every body. The time
of Python and the imports, which does not depend on the stored objects, is measured separately. A list is compared with
orjson's serialization of the same objects, and with an aiohttp handler that responds with the same bytes.
"""

import http.client
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.bench import Row, row
from tests.launcher_process import PROJECT
from tests.local.server import FRAMEWORKS, Server
from tests.rig.filled_store import completed_framework, fill
from tests.rig.http_baseline import constant_server
from tests.rig.measured_launcher import (
    AS_INSTALLED,
    ApiConnection,
    connected,
    directory,
    resident,
    running_launcher,
    seconds_since,
    wait_until_idle,
)

ROUNDS = 3
STORED = 10_000
_RESTART = f"restart with {STORED} Frameworks"


@dataclass(frozen=True, slots=True)
class _Start:
    """The measurements of one round."""

    read_seconds: float
    import_seconds: float
    ready_seconds: float


def rows() -> list[Row]:
    """Measures lists, and starts with a full store."""
    with directory() as data:
        file = data / "data" / "store.db"
        fill(file, STORED, completed_framework())
        return [*_first_rows(data), *_restart_rows([_start(data, file) for _ in range(ROUNDS)])]


def _first_rows(data: Path) -> Iterator[Row]:
    """Measures the first start; afterwards the caches of the disk and of Python's bytecode are warm."""
    start = time.perf_counter()
    with running_launcher(data) as server, connected(server) as api:
        wait_until_idle(server)
        yield row(f"{_RESTART}: idle after", seconds_since(start), "s")
        yield row(
            f"{_RESTART}: memory of the launcher per Framework", resident(server.pid) / STORED / 1024, "KiB"
        )
        yield from _list_rows(server, api)


def _list_rows(server: Server, api: ApiConnection) -> Iterator[Row]:
    body = api.body("GET", FRAMEWORKS)
    objects = orjson.loads(body)
    assert len(objects["items"]) >= STORED
    launcher_seconds, dump_seconds, handler_seconds = [], [], []
    with constant_server(body) as baseline_url:
        for _ in range(ROUNDS):
            launcher_seconds.append(_list_seconds(server.url, body))
            start = time.perf_counter()
            orjson.dumps(objects)
            dump_seconds.append(seconds_since(start))
            handler_seconds.append(_list_seconds(baseline_url, body))
    name = f"list of {STORED} Frameworks, {len(body) / 1e6:.0f} MB"
    yield row(name, statistics.median(launcher_seconds), "s")
    yield row(f"{name} / serialization by orjson", _ratio(launcher_seconds, dump_seconds), "ratio")
    yield row(
        f"{name} / minimal handler with the same bytes", _ratio(launcher_seconds, handler_seconds), "ratio"
    )


def _list_seconds(url: str, expected: bytes) -> float:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    start = time.perf_counter()
    connection.request("GET", FRAMEWORKS)
    received = connection.getresponse().read()
    spent = seconds_since(start)
    connection.close()
    assert len(received) == len(expected)
    return spent


def _ratio(launcher_seconds: list[float], baseline_seconds: list[float]) -> float:
    return statistics.median(
        seconds / baseline for seconds, baseline in zip(launcher_seconds, baseline_seconds, strict=True)
    )


def _restart_rows(starts: list[_Start]) -> Iterator[Row]:
    yield row(f"{_RESTART}: ready after", statistics.median(start.ready_seconds for start in starts), "s")
    imports = statistics.median(start.import_seconds for start in starts)
    yield row(f"{_RESTART}: part of Python and imports", imports, "s")
    ratio = statistics.median(start.ready_seconds / start.read_seconds for start in starts)
    yield row(f"{_RESTART}: ready / read of the rows", ratio, "ratio", at_most=10)
    ratio = statistics.median(
        (start.ready_seconds - start.import_seconds) / start.read_seconds for start in starts
    )
    yield row(f"{_RESTART}: ready, without Python and imports / read of the rows", ratio, "ratio")


def _start(data: Path, file: Path) -> _Start:
    start = time.perf_counter()
    _read_rows(file)
    read_seconds = seconds_since(start)
    start = time.perf_counter()
    program = [*AS_INSTALLED, sys.executable, "-c", "import launcher.wiring.local"]
    subprocess.run(program, check=True, cwd=PROJECT, timeout=60)
    imports = seconds_since(start)
    start = time.perf_counter()
    with running_launcher(data) as server, connected(server) as api:
        api.object("GET", f"{FRAMEWORKS}/framework-{STORED - 1}")
        return _Start(read_seconds, imports, seconds_since(start))


def _read_rows(file: Path) -> None:
    connection = sqlite3.connect(file)
    for bodies in connection.execute("SELECT main, status FROM objects LEFT JOIN statuses USING (number)"):
        for body in bodies:
            orjson.loads(body or b"null")
    connection.close()
