"""
What the stores cost, as ratios to something measured in the same run.

Writes are held against bare SQLite: objects of the same size, whole, in a plain table of key and body, in WAL mode
with full sync and otherwise as SQLite comes, on the same disk, committed in the same batches. Once for as many
concurrent callers, each of whom waits for their write before the next (``with callers``: group commit as a program
would use it, with nothing checked, no JSON and no version; the goal is held against this), and once by a loop that has
all its batches ready (``in a loop``: what SQLite and the disk can do when nobody waits).

The store's own choices count as its own: larger pages, a longer log, and a status update that writes the status alone.
Status updates come in another order than the objects were created in. A machine that is busy with other things makes
the ratios worthless, mostly too good: look at the load before believing them.
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
    """Every figure."""
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
            yield row(f"{name}, to bare SQLite with callers", to_callers, "ratio", at_least=0.5)
            to_loop = statistics.median(speeds.store / speeds.loop for speeds in found)
            yield row(f"{name}, to bare SQLite in a loop", to_loop, "ratio")


def _round(callers: int) -> dict[str, _Speeds]:
    with _directory() as directory:
        store = asyncio.run(_store_speeds(directory / "store.db", callers))
        waiting = asyncio.run(_bare_speeds(directory / "callers.db", callers))
        loop = _loop_speeds(directory / "loop.db", callers)
    return {verb: _Speeds(store[verb], waiting[verb], loop[verb]) for verb in store}


@contextmanager
def _directory() -> Iterator[Path]:
    # Beside the code: the system's own directory for such files may be no disk at all.
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


#: Environment variables that make an object of 3 KB, without a status and with one.
_LARGE, _SMALL = 12, 8


def _elsewhere(number: int) -> int:
    """Another number for each: objects are not changed in the order in which they were created."""
    return number * 1597 % WRITES


async def _timed(callers: int, write: Callable[[int], Awaitable[object]]) -> float:
    """Writes per second when each caller waits for one before the next."""

    async def caller(first: int) -> None:
        for number in range(first, WRITES, callers):
            await write(number)

    gc.collect()
    begin = time.perf_counter()
    await asyncio.gather(*(caller(first) for first in range(callers)))
    return WRITES / (time.perf_counter() - begin)


async def _store_speeds(path: Path, callers: int) -> dict[str, float]:
    # Uids are handed to the store, so making them is not its cost.
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
        made = await store.create(FRAMEWORKS, {**small, "metadata": metadata})
        made = await store.update_status(FRAMEWORKS, {**made, "status": statuses[0]})
        versions[number] = made["metadata"]["resourceVersion"]

    async def update_status(number: int) -> None:
        number = _elsewhere(number)
        metadata = {**small["metadata"], "name": f"small-{number}", "resourceVersion": versions[number]}
        await store.update_status(
            FRAMEWORKS, {**small, "metadata": metadata, "status": statuses[1 + number % 7]}
        )

    creates = await _timed(callers, create)
    await _timed(callers, prepare)
    updates = await _timed(callers, update_status)
    await store.close()
    return {"creates": creates, "status updates": updates}


def _bare(path: Path) -> sqlite3.Connection:
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
    """The bytes that the store holds for as many objects, each with its key."""
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
    connection = _bare(path)

    def timed(bodies: _Bodies) -> float:
        batches = [bodies[first : first + callers] for first in range(0, WRITES, callers)]
        gc.collect()
        begin = time.perf_counter()
        for batch in batches:
            _commit(connection, batch)
        return WRITES / (time.perf_counter() - begin)

    creates = timed(_bodies(_LARGE, None))
    timed(_bodies(_SMALL, 0))
    bodies = _bodies(_SMALL, 1)
    updates = timed([bodies[_elsewhere(number)] for number in range(WRITES)])
    connection.close()
    return {"creates": creates, "status updates": updates}


class _BareCallers:
    """The plainest group commit: what gathers while one batch is written is the next."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._gathered: list[tuple[tuple[str, bytes], asyncio.Future[None]]] = []
        self._busy = False
        self.thread = ThreadPoolExecutor(1)

    def write(self, body: tuple[str, bytes]) -> Awaitable[None]:
        done: asyncio.Future[None] = self._loop.create_future()
        if not self._gathered and not self._busy:
            self._loop.call_soon(self._begin)
        self._gathered.append((body, done))
        return done

    def _begin(self) -> None:
        batch, self._gathered = self._gathered, []
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


async def _bare_speeds(path: Path, callers: int) -> dict[str, float]:
    connection = _bare(path)
    bare = _BareCallers(connection)

    def timed(bodies: _Bodies) -> Awaitable[float]:
        return _timed(callers, lambda number: bare.write(bodies[number]))

    creates = await timed(_bodies(_LARGE, None))
    await timed(_bodies(_SMALL, 0))
    bodies = _bodies(_SMALL, 1)
    updates = await timed([bodies[_elsewhere(number)] for number in range(WRITES)])
    bare.thread.shutdown()
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
    store = MemoryStore(time.time, lambda: str(uuid.uuid4()), WatchCache(most_entries=0))
    for number in range(PODS_IN_LISTS):
        await store.create(PODS, _a_pod(number))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = orjson.dumps(await store.get(PODS, "default", "pod-7"))
    decode = _seconds_of(lambda: orjson.loads(text))
    get = await _seconds(lambda: store.get(PODS, "default", "pod-7"))
    by_label = Selector.labelled({"framework": "framework-7"})
    few = await _seconds(lambda: store.list(PODS, "default", by_label))
    return [
        row(
            f"memory for each of {PODS_IN_LISTS} pods, to the bytes of its JSON",
            taken / PODS_IN_LISTS / len(text),
            "ratio",
        ),
        row("get, to reading its JSON", get / decode, "ratio"),
        row(
            f"list of 10 pods by label among {PODS_IN_LISTS}, to reading their JSON",
            few / decode / 10,
            "ratio",
        ),
        await _watch_row(store, decode),
    ]


async def _watch_row(store: MemoryStore, decode: float) -> Row:
    """What 100 watchers of one namespace cost a writer and themselves for each change, to reading it once."""
    count, watchers = 200, 100
    since = (await store.list(PODS, limit=1)).version

    async def hear() -> None:
        async with aclosing(store.watch(PODS, "default", since=since)) as watch:
            for _ in range(count):
                await anext(watch)

    tasks = [asyncio.create_task(hear()) for _ in range(watchers)]
    await asyncio.sleep(0)
    begin = time.perf_counter()
    for number in range(count):
        await store.create(PODS, _a_pod(PODS_IN_LISTS + number))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    spent = (time.perf_counter() - begin) / count
    return row(
        f"a change told to {watchers} watchers, to reading its JSON once for each",
        spent / decode / watchers,
        "ratio",
    )


def _seconds_of(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=2_000, repeat=3)) / 2_000


async def _seconds(call: Callable[[], Awaitable[object]]) -> float:
    spent = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(500):
            await call()
        spent.append((time.perf_counter() - begin) / 500)
    return min(spent)
