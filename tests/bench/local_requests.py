"""
Frameworks written and read over HTTP, by one client and by many, against a bare handler on aiohttp.

The bare handler answers the same bytes. Clients are a process of their own, and so is the bare server. Writes are also
held against the store alone, without HTTP, checks and defaults, with as many callers. The Frameworks are not started:
this is what a request costs, and the controller's look at each that was written.
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
from tests.rig.bare_http import answering
from tests.rig.launching import Asking, a_framework, connected, directory, serving
from tests.rig.requesters import Answers, Load, answers_to

ROUNDS = 3
#: Clients, and how many requests they send together.
LOADS = {1: 300, 32: 1500}


def rows() -> list[Row]:
    """GET and POST, by one client and by many."""
    with directory() as place, serving(place) as server, connected(server) as ask:
        return [*_read_rows(ask, server.url), *_write_rows(ask, server.url, place)]


def _read_rows(ask: Asking, url: str) -> Iterator[Row]:
    ask.object("POST", FRAMEWORKS, a_framework("read", execution="Create"))
    path = f"{FRAMEWORKS}/read"
    with answering(ask.body("GET", path)) as bare:
        for clients, requests in LOADS.items():
            ours, others = [], []
            for _ in range(ROUNDS):
                ours.append(answers_to(Load(url, "GET", path, clients, requests)))
                others.append(answers_to(Load(bare, "GET", path, clients, requests)))
            yield from _common_rows("GET", clients, ours, others)


def _write_rows(ask: Asking, url: str, place: Path) -> Iterator[Row]:
    said = ask.body("POST", FRAMEWORKS, a_framework("write", execution="Create"))
    with answering(said) as bare:
        for clients, requests in LOADS.items():
            ours, others, stores = [], [], []
            for number in range(ROUNDS):
                body = orjson.dumps(
                    a_framework(f"w{clients}-{number}-{{number}}", execution="Create")
                ).decode()
                ours.append(answers_to(Load(url, "POST", FRAMEWORKS, clients, requests, body)))
                others.append(answers_to(Load(bare, "POST", FRAMEWORKS, clients, requests, body)))
                file = place / f"{clients}-{number}.db"
                stores.append(asyncio.run(_store_rate(file, clients, requests, orjson.loads(said))))
            yield from _common_rows("POST", clients, ours, others)
            ratio = statistics.median(our.rate / store for our, store in zip(ours, stores, strict=True))
            yield row(f"POST, {_of(clients)}: rate / that of the store alone", ratio, "ratio")


def _common_rows(method: str, clients: int, ours: list[Answers], others: list[Answers]) -> Iterator[Row]:
    what = f"{method}, {_of(clients)}"
    yield row(f"{what}: rate", statistics.median(answers.rate for answers in ours), "1/s")
    ratio = statistics.median(our.rate / other.rate for our, other in zip(ours, others, strict=True))
    yield row(f"{what}: rate / that of a bare handler", ratio, "ratio")
    yield row(f"{what}: p50", statistics.median(answers.half for answers in ours) * 1e3, "ms")
    yield row(f"{what}: p99", statistics.median(answers.most for answers in ours) * 1e3, "ms")


def _of(clients: int) -> str:
    return "1 client" if clients == 1 else f"{clients} clients"


async def _store_rate(path: Path, callers: int, count: int, obj: Object) -> float:
    """Objects per second that the store takes when each of its callers waits for one before the next."""
    store = await SqliteStore.open(path, clock=time.time, new_uid=lambda: str(uuid.uuid4()))
    numbers = itertools.count()
    metadata = {key: obj["metadata"][key] for key in ("namespace", "labels") if key in obj["metadata"]}

    async def caller() -> None:
        while (number := next(numbers)) < count:
            name = {"metadata": {**metadata, "name": f"framework-{number}"}}
            await store.create(KIND, {**obj, **name})

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    spent = time.perf_counter() - began
    await store.close()
    return count / spent
