"""
Writing and reading Frameworks over HTTP, by one client and by many, compared with a minimal aiohttp handler.

The minimal handler responds with the same bytes. Clients and minimal server have their own processes. Writes are also
compared with the store alone, without HTTP, validation and defaults, with the same number of callers. The Frameworks
are not started: this measures requests, and the controller's reconcile of each written Framework.
"""

import asyncio
import itertools
import statistics
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import orjson

from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS as KIND
from launcher.store.interface import Object
from tests.bench import Row, row
from tests.local.server import FRAMEWORKS
from tests.rig.http_baseline import constant_server
from tests.rig.measured_launcher import ApiConnection, a_framework, connected, directory, running_launcher
from tests.rig.request_load import Latencies, RequestLoad, measure_requests

ROUNDS = 3
#: The number of clients, and the number of their requests together.
LOADS = {1: 300, 32: 1500}


def rows() -> list[Row]:
    """Measures GET and POST, by one client and by many."""
    with directory() as data, running_launcher(data) as server, connected(server) as api:
        return [*_read_rows(api, server.url), *_write_rows(api, server.url, data)]


def _read_rows(api: ApiConnection, url: str) -> Iterator[Row]:
    api.object("POST", FRAMEWORKS, a_framework("read", execution="Create"))
    path = f"{FRAMEWORKS}/read"
    with constant_server(api.body("GET", path)) as baseline_url:
        for clients, requests in LOADS.items():
            launcher_runs, baseline_runs = [], []
            for _ in range(ROUNDS):
                launcher_runs.append(measure_requests(RequestLoad(url, "GET", path, clients, requests)))
                baseline_runs.append(
                    measure_requests(RequestLoad(baseline_url, "GET", path, clients, requests))
                )
            yield from _common_rows("GET", clients, launcher_runs, baseline_runs)


def _write_rows(api: ApiConnection, url: str, data: Path) -> Iterator[Row]:
    response = api.body("POST", FRAMEWORKS, a_framework("write", execution="Create"))
    with constant_server(response) as baseline_url:
        for clients, requests in LOADS.items():
            launcher_runs, baseline_runs, stores = [], [], []
            for number in range(ROUNDS):
                body = orjson.dumps(
                    a_framework(f"w{clients}-{number}-{{number}}", execution="Create")
                ).decode()
                launcher_runs.append(
                    measure_requests(RequestLoad(url, "POST", FRAMEWORKS, clients, requests, body))
                )
                baseline_runs.append(
                    measure_requests(RequestLoad(baseline_url, "POST", FRAMEWORKS, clients, requests, body))
                )
                file = data / f"{clients}-{number}.db"
                stores.append(asyncio.run(_store_rate(file, clients, requests, orjson.loads(response))))
            yield from _common_rows("POST", clients, launcher_runs, baseline_runs)
            ratio = statistics.median(
                run.rate / store for run, store in zip(launcher_runs, stores, strict=True)
            )
            yield row(f"POST, {_clients(clients)}: rate / rate of the store alone", ratio, "ratio")


def _common_rows(
    method: str, clients: int, launcher_runs: list[Latencies], baseline_runs: list[Latencies]
) -> Iterator[Row]:
    name = f"{method}, {_clients(clients)}"
    yield row(f"{name}: rate", statistics.median(run.rate for run in launcher_runs), "1/s")
    ratio = statistics.median(
        run.rate / baseline.rate for run, baseline in zip(launcher_runs, baseline_runs, strict=True)
    )
    yield row(f"{name}: rate / rate of a minimal handler", ratio, "ratio")
    yield row(f"{name}: p50", statistics.median(run.p50 for run in launcher_runs) * 1e3, "ms")
    yield row(f"{name}: p99", statistics.median(run.p99 for run in launcher_runs) * 1e3, "ms")


def _clients(clients: int) -> str:
    return "1 client" if clients == 1 else f"{clients} clients"


async def _store_rate(path: Path, callers: int, count: int, obj: Object) -> float:
    """Objects per second that the store writes when each caller waits for its write before the next."""
    store = await SqliteStore.open(path, clock=time.time, new_uid=lambda: str(uuid.uuid4()))
    numbers = itertools.count()
    metadata = {key: obj["metadata"][key] for key in ("namespace", "labels") if key in obj["metadata"]}

    async def caller() -> None:
        while (number := next(numbers)) < count:
            name = {"metadata": {**metadata, "name": f"framework-{number}"}}
            await store.create(KIND, {**obj, **name})

    start = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    spent = time.perf_counter() - start
    await store.close()
    return count / spent
