"""
A launcher with many stored Frameworks: how soon it is there again, and how it lists them.

A restart is held against the bare read of the same rows: SQLite's own, of both tables, and orjson's of every body. What
Python and the imports take is measured beside it: that is the same on every start, however much is stored. A list is
held against orjson's writing of the same objects, and against a handler on aiohttp that answers the same bytes.
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
from tests.local.server import FRAMEWORKS, PROJECT, Server
from tests.rig.bare_http import answering
from tests.rig.launching import (
    AS_INSTALLED,
    Asking,
    await_rest,
    connected,
    directory,
    resident,
    seconds_since,
    serving,
)
from tests.rig.stored import ended_framework, fill

ROUNDS = 3
STORED = 10_000
_WHAT = f"restart with {STORED} Frameworks"


@dataclass(frozen=True, slots=True)
class _Start:
    """Seconds of one round."""

    bare: float
    imports: float
    ready: float


def rows() -> list[Row]:
    """Lists, and starts over a full store."""
    with directory() as place:
        file = place / "data" / "store.db"
        fill(file, STORED, ended_framework())
        return [*_first_rows(place), *_restart_rows([_start(place, file) for _ in range(ROUNDS)])]


def _first_rows(place: Path) -> Iterator[Row]:
    """The disk and Python's bytecode are warm after this."""
    began = time.perf_counter()
    with serving(place) as server, connected(server) as ask:
        await_rest(server)
        yield row(f"{_WHAT}: all looked at after", seconds_since(began), "s")
        yield row(f"{_WHAT}: memory of the launcher, for each", resident(server.pid) / STORED / 1024, "KiB")
        yield from _list_rows(server, ask)


def _list_rows(server: Server, ask: Asking) -> Iterator[Row]:
    body = ask.body("GET", FRAMEWORKS)
    objects = orjson.loads(body)
    assert len(objects["items"]) >= STORED
    ours, written, sent = [], [], []
    with answering(body) as bare:
        for _ in range(ROUNDS):
            ours.append(_reading(server.url, body))
            began = time.perf_counter()
            orjson.dumps(objects)
            written.append(seconds_since(began))
            sent.append(_reading(bare, body))
    what = f"list of {STORED} Frameworks, {len(body) / 1e6:.0f} MB"
    yield row(what, statistics.median(ours), "s")
    yield row(f"{what} / orjson's writing of them", _ratio(ours, written), "ratio")
    yield row(f"{what} / a bare handler with the same bytes", _ratio(ours, sent), "ratio")


def _reading(url: str, expected: bytes) -> float:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    began = time.perf_counter()
    connection.request("GET", FRAMEWORKS)
    got = connection.getresponse().read()
    spent = seconds_since(began)
    connection.close()
    assert len(got) == len(expected)
    return spent


def _ratio(ours: list[float], others: list[float]) -> float:
    return statistics.median(our / other for our, other in zip(ours, others, strict=True))


def _restart_rows(starts: list[_Start]) -> Iterator[Row]:
    yield row(f"{_WHAT}: ready after", statistics.median(start.ready for start in starts), "s")
    imports = statistics.median(start.imports for start in starts)
    yield row(f"{_WHAT}: of that, Python and imports", imports, "s")
    ratio = statistics.median(start.ready / start.bare for start in starts)
    yield row(f"{_WHAT}: ready / bare read of the rows", ratio, "ratio", at_most=10)
    ratio = statistics.median((start.ready - start.imports) / start.bare for start in starts)
    yield row(f"{_WHAT}: ready, without Python and imports / bare read of the rows", ratio, "ratio")


def _start(place: Path, file: Path) -> _Start:
    began = time.perf_counter()
    _read(file)
    bare = seconds_since(began)
    began = time.perf_counter()
    program = [*AS_INSTALLED, sys.executable, "-c", "import launcher.wiring.local"]
    subprocess.run(program, check=True, cwd=PROJECT, timeout=60)
    imports = seconds_since(began)
    began = time.perf_counter()
    with serving(place) as server, connected(server) as ask:
        ask.object("GET", f"{FRAMEWORKS}/framework-{STORED - 1}")
        return _Start(bare, imports, seconds_since(began))


def _read(file: Path) -> None:
    connection = sqlite3.connect(file)
    for bodies in connection.execute("SELECT main, status FROM objects LEFT JOIN statuses USING (number)"):
        for body in bodies:
            orjson.loads(body or b"null")
    connection.close()
