"""
The cost of the stores, as ratios to a baseline of the same run.

The baseline of writes is plain SQLite: objects of the same size in a table of key and body, in WAL mode with full sync
and otherwise default settings, on the same disk, committed in the same batches. It is measured with the same number of
concurrent callers, each of which waits for its write before the next (``with callers``: group commit without
validation, JSON and versions; the goal refers to this), and with a loop over prepared batches (``in a loop``: the limit
of SQLite and the disk).

Optimizations of the store are included: larger pages, a longer log, and status updates that write the status only.
Status updates have another order than creations. On a busy machine the ratios are meaningless, mostly too good.
"""

import asyncio
import gc
import itertools
import sqlite3
import statistics
import tempfile
import time
import timeit
import tracemalloc
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.rows import new_row
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import FRAMEWORKS, PODS, Object, key_of
from launcher.store.selectors import Selector
from tests.bench import Row, row

ROUNDS = 5
WRITES = 4096
PODS_IN_LISTS = 20_000


def rows() -> list[Row]:
    """Measures writes and reads."""
    return [*_write_rows(), *asyncio.run(_read_rows())]


# Writes


@dataclass(frozen=True, slots=True)
class _Speeds:
    """Writes per second of one round."""

    store: float
    callers: float
    loop: float


def _write_rows() -> Iterator[Row]:
    for callers in (64, 256):
        rounds: dict[str, list[_Speeds]] = {"creates": [], "status updates": []}
        for _ in range(ROUNDS):
            for verb, speeds in _round(callers).items():
                rounds[verb].append(speeds)
        for verb, found in rounds.items():
            name = f"store {verb}, {callers} callers"
            yield row(name, statistics.median(speeds.store for speeds in found), "writes/s")
            to_callers = statistics.median(speeds.store / speeds.callers for speeds in found)
            yield row(f"{name}, to plain SQLite with callers", to_callers, "ratio", at_least=0.5)
            to_loop = statistics.median(speeds.store / speeds.loop for speeds in found)
            yield row(f"{name}, to plain SQLite in a loop", to_loop, "ratio")


def _round(callers: int) -> dict[str, _Speeds]:
    with _directory() as directory:
        store = asyncio.run(_store_speeds(directory / "store.db", callers))
        waiting = asyncio.run(_plain_caller_speeds(directory / "callers.db", callers))
        loop = _loop_speeds(directory / "loop.db", callers)
    return {verb: _Speeds(store[verb], waiting[verb], loop[verb]) for verb in store}


@contextmanager
def _directory() -> Iterator[Path]:
    # In the project: the system's temporary directory may be a tmpfs.
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as name:
        yield Path(name)


def _a_framework(number: int, variables: int) -> Object:
    container = {
        "name": "main",
        "image": "tensorflow/tensorflow:2.15",
        "command": ["python", "/train/main.py"],
    }
    env = [{"name": f"VARIABLE_{n}", "value": "a value of some length"} for n in range(variables)]
    pod = {"spec": {"restartPolicy": "Never", "containers": [{**container, "env": env}]}}
    roles = [{"name": role, "taskNumber": 2, "task": {"pod": pod}} for role in ("ps", "worker", "chief")]
    return {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": "Framework",
        "metadata": {
            "name": f"framework-{number}",
            "namespace": "default",
            "labels": {"team": "a", "queue": "b"},
        },
        "spec": {"description": "an example", "executionType": "Start", "taskRoles": roles},
    }


def _a_status(number: int) -> Object:
    task = {
        "state": "AttemptRunning",
        "podName": f"pod-{number}",
        "startTime": "2024-01-01T00:00:00Z",
        "attempt": 1,
    }
    roles = [{"name": role, "tasks": [task, task]} for role in ("ps", "worker", "chief")]
    return {"state": "AttemptRunning", "retries": number, "taskRoleStatuses": roles}


#: The number of environment variables of an object of 3 KB without and with a status.
_LARGE, _SMALL = 12, 8


def _shuffled(number: int) -> int:
    """A permutation of the numbers: objects are updated in another order than created."""
    return number * 1597 % WRITES


async def _timed(callers: int, write: Callable[[int], Awaitable[object]]) -> float:
    """Writes per second when each caller waits for one before the next."""

    async def caller(first: int) -> None:
        for number in range(first, WRITES, callers):
            await write(number)

    gc.collect()
    start = time.perf_counter()
    await asyncio.gather(*(caller(first) for first in range(callers)))
    return WRITES / (time.perf_counter() - start)


async def _store_speeds(path: Path, callers: int) -> dict[str, float]:
    # The generation of uids is not part of the measurement.
    store = await SqliteStore.open(
        path, clock=time.time, new_uid=map("{:036}".format, itertools.count()).__next__
    )
    large, small = _a_framework(0, _LARGE), _a_framework(0, _SMALL)
    statuses = [_a_status(number) for number in range(8)]
    versions = [""] * WRITES

    async def create(number: int) -> None:
        metadata = {**large["metadata"], "name": f"large-{number}"}
        await store.create(FRAMEWORKS, {**large, "metadata": metadata})

    async def prepare(number: int) -> None:
        metadata = {**small["metadata"], "name": f"small-{number}"}
        stored = await store.create(FRAMEWORKS, {**small, "metadata": metadata})
        stored = await store.update_status(FRAMEWORKS, {**stored, "status": statuses[0]})
        versions[number] = stored["metadata"]["resourceVersion"]

    async def update_status(number: int) -> None:
        number = _shuffled(number)
        metadata = {**small["metadata"], "name": f"small-{number}", "resourceVersion": versions[number]}
        await store.update_status(
            FRAMEWORKS, {**small, "metadata": metadata, "status": statuses[1 + number % 7]}
        )

    creates = await _timed(callers, create)
    await _timed(callers, prepare)
    updates = await _timed(callers, update_status)
    await store.close()
    return {"creates": creates, "status updates": updates}


def _plain_sqlite(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE bare (key TEXT PRIMARY KEY, body BLOB)")
    return connection


def _commit(connection: sqlite3.Connection, batch: list[tuple[str, bytes]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT OR REPLACE INTO bare VALUES (?, ?)", batch)
    connection.execute("COMMIT")


_Bodies = list[tuple[str, bytes]]


def _bodies(variables: int, status: int | None) -> _Bodies:
    """Key and stored bytes of each object."""
    bodies = []
    for number in range(WRITES):
        obj = _a_framework(number, variables)
        obj["metadata"] |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "generation": 1,
        }
        if status is not None:
            obj["status"] = _a_status(status + number % 7)
        row = new_row(FRAMEWORKS.resource, key_of(obj), obj, 1)
        bodies.append((f"frameworks/default/{variables}-{number}", row.main + (row.status or b"")))
    return bodies


def _loop_speeds(path: Path, callers: int) -> dict[str, float]:
    connection = _plain_sqlite(path)

    def timed(bodies: _Bodies) -> float:
        batches = [bodies[first : first + callers] for first in range(0, WRITES, callers)]
        gc.collect()
        start = time.perf_counter()
        for batch in batches:
            _commit(connection, batch)
        return WRITES / (time.perf_counter() - start)

    creates = timed(_bodies(_LARGE, None))
    timed(_bodies(_SMALL, 0))
    bodies = _bodies(_SMALL, 1)
    updates = timed([bodies[_shuffled(number)] for number in range(WRITES)])
    connection.close()
    return {"creates": creates, "status updates": updates}


class _GroupCommit:
    """A minimal group commit: writes during a commit are the next batch."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[tuple[str, bytes], asyncio.Future[None]]] = []
        self._busy = False
        self.thread = ThreadPoolExecutor(1)

    def write(self, body: tuple[str, bytes]) -> Awaitable[None]:
        done: asyncio.Future[None] = self._loop.create_future()
        if not self._pending and not self._busy:
            self._loop.call_soon(self._begin)
        self._pending.append((body, done))
        return done

    def _begin(self) -> None:
        batch, self._pending = self._pending, []
        self._busy = bool(batch)
        if batch:
            work = self._loop.run_in_executor(
                self.thread, _commit, self._connection, [body for body, _ in batch]
            )
            work.add_done_callback(lambda _: self._end(batch))

    def _end(self, batch: list[tuple[tuple[str, bytes], asyncio.Future[None]]]) -> None:
        for _, done in batch:
            done.set_result(None)
        self._begin()


async def _plain_caller_speeds(path: Path, callers: int) -> dict[str, float]:
    connection = _plain_sqlite(path)
    group_commit = _GroupCommit(connection)

    def timed(bodies: _Bodies) -> Awaitable[float]:
        return _timed(callers, lambda number: group_commit.write(bodies[number]))

    creates = await timed(_bodies(_LARGE, None))
    await timed(_bodies(_SMALL, 0))
    bodies = _bodies(_SMALL, 1)
    updates = await timed([bodies[_shuffled(number)] for number in range(WRITES)])
    group_commit.thread.shutdown()
    connection.close()
    return {"creates": creates, "status updates": updates}


# Reads


def _a_pod(number: int) -> Object:
    labels = {
        "framework": f"framework-{number // 10}",
        "role": "worker",
        "index": str(number % 10),
        "attempt": "1_a",
    }
    container = {
        "name": "main",
        "image": "tensorflow/tensorflow:2.15",
        "command": ["python", "/train/main.py"],
    }
    env = [{"name": f"VARIABLE_{n}", "value": "a value of some length"} for n in range(20)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default", "labels": labels},
        "spec": {"containers": [{**container, "env": env}]},
    }


async def _read_rows() -> list[Row]:
    tracemalloc.start()
    store = MemoryStore(time.time, lambda: str(uuid.uuid4()), WatchCache(max_entries=0))
    for number in range(PODS_IN_LISTS):
        await store.create(PODS, _a_pod(number))
    gc.collect()
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = orjson.dumps(await store.get(PODS, "default", "pod-7"))
    decode = _seconds_of(lambda: orjson.loads(text))
    get = await _seconds(lambda: store.get(PODS, "default", "pod-7"))
    by_label = Selector.for_labels({"framework": "framework-7"})
    list_by_label = await _seconds(lambda: store.list(PODS, "default", by_label))
    return [
        row(
            f"memory per pod of {PODS_IN_LISTS} pods, to the size of its JSON",
            memory / PODS_IN_LISTS / len(text),
            "ratio",
        ),
        row("get, to parsing its JSON", get / decode, "ratio"),
        row(
            f"list of 10 pods by label among {PODS_IN_LISTS}, to parsing their JSON",
            list_by_label / decode / 10,
            "ratio",
        ),
        await _watch_row(store, decode),
    ]


async def _watch_row(store: MemoryStore, decode: float) -> Row:
    """The cost of a change with 100 watchers of its namespace, per watcher, to parsing it once."""
    count, watchers = 200, 100
    since = (await store.list(PODS, limit=1)).version

    async def receive() -> None:
        async with aclosing(store.watch(PODS, "default", since=since)) as watch:
            for _ in range(count):
                await anext(watch)

    tasks = [asyncio.create_task(receive()) for _ in range(watchers)]
    await asyncio.sleep(0)
    start = time.perf_counter()
    for number in range(count):
        await store.create(PODS, _a_pod(PODS_IN_LISTS + number))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    spent = (time.perf_counter() - start) / count
    return row(
        f"a change sent to {watchers} watchers, to parsing its JSON once per watcher",
        spent / decode / watchers,
        "ratio",
    )


def _seconds_of(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=2_000, repeat=3)) / 2_000


async def _seconds(call: Callable[[], Awaitable[object]]) -> float:
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(500):
            await call()
        spent.append((time.perf_counter() - start) / 500)
    return min(spent)
