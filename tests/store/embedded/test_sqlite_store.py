"""The SQLite store beyond the contract: one file, group commit, and errors of the disk."""

import asyncio
import contextlib
import resource
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.errors import (
    AlreadyExists,
    DiskFull,
    NotFound,
    OutcomeUnknown,
    StoreCorrupted,
    Unavailable,
)
from launcher.store.embedded import sqlite_file as database
from launcher.store.embedded.sqlite_file import Database
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import CONFIG_MAPS, FRAMEWORKS, ChangeType, Store
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import (
    NOW,
    a_framework,
    an_object,
    current_version,
    names,
    next_changes,
    uids,
    version_of,
    with_,
    with_metadata,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextlib.asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())
    try:
        yield store
    finally:
        await store.close()


async def create_many(store: Store, count: int, first: int = 0, size: int = 0) -> list[Any]:
    """The results, or errors, of concurrent creates."""
    objects = (a_framework(f"f-{n}", annotations={"a": "x" * size}) for n in range(first, first + count))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await asyncio.gather(
            *(store.create(FRAMEWORKS, obj) for obj in objects), return_exceptions=True
        )


# The file


async def test_all_objects_are_restored_after_a_restart(path: Path) -> None:
    async with open_store(path) as store:
        created = await store.create(FRAMEWORKS, a_framework("a", labels={"x": "y"}))
        created = await store.update_status(FRAMEWORKS, with_(created, status={"state": "Running"}))
        with_finalizer = await store.create(FRAMEWORKS, a_framework("b", finalizers=["x/y"]))
        with_finalizer = await store.delete(FRAMEWORKS, "default", "b")
        config = await store.create(CONFIG_MAPS, an_object(CONFIG_MAPS, "c", data={"é": "\u2028\x00"}))
        version = await current_version(store)

    async with open_store(path) as store:
        page = await store.list(FRAMEWORKS)
        assert (list(page.items), page.version) == ([created, with_finalizer], version)
        assert await store.get(CONFIG_MAPS, "default", "c") == config
        await store.update(FRAMEWORKS, with_metadata(with_finalizer, finalizers=None))
        assert names((await store.list(FRAMEWORKS)).items) == ["a"]


async def test_versions_continue_after_a_restart_even_if_the_last_write_was_a_deletion(path: Path) -> None:
    async with open_store(path) as store:
        await store.create(FRAMEWORKS, a_framework())
        await store.delete(FRAMEWORKS, "default", "mnist")
        before = await current_version(store)

    async with open_store(path) as store:
        assert await current_version(store) == before
        assert version_of(await store.create(FRAMEWORKS, a_framework())) > before


async def test_a_watch_continues_after_a_restart_only_from_the_last_version(path: Path) -> None:
    async with open_store(path) as store:
        created = await store.create(FRAMEWORKS, a_framework("a"))
        last = await store.create(FRAMEWORKS, a_framework("b"))

    async with open_store(path) as store:
        await store.delete(FRAMEWORKS, "default", "a")
        (change,) = await next_changes(store.watch(FRAMEWORKS, since=version_of(last)), 1)
        with pytest.raises(Exception, match="list again"):
            await next_changes(store.watch(FRAMEWORKS, since=version_of(created)), 1)

    assert change.type is ChangeType.DELETED


async def test_the_file_is_in_wal_mode_with_full_sync(path: Path) -> None:
    async with open_store(path) as store:
        connection = store._database._connection
        assert connection is not None
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


# Group commit


async def test_concurrent_writes_share_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    commit = Database.commit

    def counted(self: Database, entries: Any) -> None:
        sizes.append(len(entries))
        commit(self, entries)

    monkeypatch.setattr(Database, "commit", counted)
    async with open_store(path) as store:
        await create_many(store, 100)

        assert sizes == [100]
        assert len((await store.list(FRAMEWORKS)).items) == 100


class CommitGate:
    """Blocks commits until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self.begun = threading.Event()
        commit = Database.commit

        def held(database: Database, entries: Any) -> None:
            self.begun.set()
            assert self._open.wait(TIMEOUT_SECONDS)
            commit(database, entries)

        monkeypatch.setattr(Database, "commit", held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, TIMEOUT_SECONDS)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> CommitGate:
    return CommitGate(monkeypatch)


async def test_a_write_is_invisible_before_its_commit(path: Path, gate: CommitGate) -> None:
    async with open_store(path) as store:
        watch = store.watch(FRAMEWORKS, since=0)
        received = asyncio.ensure_future(anext(watch))
        creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await gate.reached()

        assert (await store.list(FRAMEWORKS)).items == []
        with pytest.raises(NotFound):
            await store.get(FRAMEWORKS, "default", "mnist")
        assert not received.done()
        assert not creating.done()

        gate.open()
        created = await creating
        assert (await received).object == created
        assert await store.get(FRAMEWORKS, "default", "mnist") == created


async def test_a_write_is_based_on_uncommitted_writes(path: Path, gate: CommitGate) -> None:
    async with open_store(path) as store:
        creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await gate.reached()
        deleting = asyncio.create_task(store.delete(FRAMEWORKS, "default", "mnist"))
        again = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await asyncio.sleep(0)
        gate.open()

        first, _, second = await asyncio.gather(creating, deleting, again)

        assert await store.get(FRAMEWORKS, "default", "mnist") == second
        assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_a_rejection_waits_for_the_commit_it_depends_on(path: Path, gate: CommitGate) -> None:
    async with open_store(path) as store:
        creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await gate.reached()
        rejected = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await asyncio.sleep(0)
        assert not rejected.done()

        gate.open()
        await creating
        with pytest.raises(AlreadyExists):
            await rejected


async def test_close_waits_for_uncommitted_writes(path: Path, gate: CommitGate) -> None:
    store = await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())
    watch = store.watch(FRAMEWORKS, since=0)
    first = asyncio.create_task(store.create(FRAMEWORKS, a_framework("first")))
    await gate.reached()
    second = asyncio.create_task(store.create(FRAMEWORKS, a_framework("second")))
    await asyncio.sleep(0)

    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    gate.open()
    await closing

    assert first.done()
    assert second.done()
    with pytest.raises(Unavailable, match="closed"):
        await store.create(FRAMEWORKS, a_framework("third"))
    assert len(await next_changes(watch, 2)) == 2
    with pytest.raises(Unavailable, match="closed"):
        await next_changes(watch, 1)
    async with open_store(path) as store:
        assert names((await store.list(FRAMEWORKS)).items) == ["first", "second"]


async def test_cancelling_a_call_during_a_commit_has_no_side_effects(path: Path, gate: CommitGate) -> None:
    async with open_store(path) as store:
        cancelled = asyncio.create_task(store.create(FRAMEWORKS, a_framework("a")))
        waits = asyncio.create_task(store.create(FRAMEWORKS, a_framework("b")))
        await gate.reached()
        rejected = asyncio.create_task(store.create(FRAMEWORKS, a_framework("a")))
        await asyncio.sleep(0)
        cancelled.cancel()
        gate.open()

        await waits
        with pytest.raises(AlreadyExists):
            await rejected
        assert names((await store.list(FRAMEWORKS)).items) == ["a", "b"]


# Errors of the disk


@contextlib.contextmanager
def full_disk(store: SqliteStore) -> Iterator[None]:
    """The file cannot grow."""
    connection = store._database._connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    connection = store._database._connection
    assert connection is not None
    connection.execute("PRAGMA max_page_count = 1000000")


@contextlib.contextmanager
def read_only_disk(store: SqliteStore) -> Iterator[None]:
    """The file cannot be written."""
    connection = store._database._connection
    assert connection is not None
    connection.execute("PRAGMA query_only = 1")
    yield
    connection.execute("PRAGMA query_only = 0")


@contextlib.contextmanager
def failing_writes(store: SqliteStore) -> Iterator[None]:
    """No file can become longer than the log is now: an I/O error during a commit."""
    log = store._database._path.with_name("store.db-wal")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("disk", [full_disk, read_only_disk, failing_writes])
async def test_a_write_is_unavailable_and_not_partly_stored_while_the_disk_fails(
    path: Path, disk: Any
) -> None:
    async with open_store(path) as store:
        await create_many(store, 20, size=5_000)
        created = (await store.list(FRAMEWORKS)).items
        watch = store.watch(FRAMEWORKS, since=await current_version(store))

        with disk(store):
            results = await create_many(store, 20, first=100, size=5_000)
            during = await store.list(FRAMEWORKS)
        after = await create_many(store, 20, first=100, size=5_000)

        assert {type(result) for result in results} in ({Unavailable}, {DiskFull})
        assert str(path) in str(results[0])
        assert during.items == created
        assert [change.object for change in await next_changes(watch, 20)] == after
        state = (await store.list(FRAMEWORKS)).items
    async with open_store(path) as store:
        assert (await store.list(FRAMEWORKS)).items == state


async def test_writes_based_on_a_failed_write_fail_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(path) as store:
        old = await store.create(FRAMEWORKS, a_framework("old"))
        gate = CommitGate(monkeypatch)
        with read_only_disk(store):
            creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework("new")))
            updating = asyncio.create_task(store.update(FRAMEWORKS, with_(old, spec={})))
            await gate.reached()
            deleting = asyncio.create_task(store.delete(FRAMEWORKS, "default", "new"))
            rejected = asyncio.create_task(store.create(FRAMEWORKS, a_framework("new")))
            conflict = asyncio.create_task(store.update(FRAMEWORKS, with_(old, spec=[])))
            await asyncio.sleep(0)
            gate.open()
            tasks = (creating, updating, deleting, rejected, conflict)
            results = await asyncio.gather(*tasks, return_exceptions=True)

        # Neither AlreadyExists nor Conflict: the write that they depend on was not committed.
        assert [type(result) for result in results] == [Unavailable] * 5
        assert (await store.list(FRAMEWORKS)).items == [old]
        assert (await store.update(FRAMEWORKS, with_(old, spec={})))["spec"] == {}


async def test_a_commit_that_fails_midway_is_rolled_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(path) as store:
        old = await store.create(FRAMEWORKS, a_framework("old"))
        with monkeypatch.context() as broken:
            broken.setattr(database, "_deletions", lambda *_: [("DELETE FROM nowhere", [])])
            calls = store.create(FRAMEWORKS, a_framework("new")), store.delete(FRAMEWORKS, "default", "old")
            results = await asyncio.gather(*calls, return_exceptions=True)

        assert [type(result) for result in results] == [StoreCorrupted, StoreCorrupted]
        assert (await store.list(FRAMEWORKS)).items == [old]
    async with open_store(path) as store:
        assert (await store.list(FRAMEWORKS)).items == [old]


def io_error() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


async def test_a_failed_commit_that_took_effect_is_reported_as_success(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(path) as store:
        write = Database._write

        def written_then_failed(database: Database, connection: Any, entries: Any) -> None:
            write(database, connection, entries)
            raise io_error()

        monkeypatch.setattr(Database, "_write", written_then_failed)
        created = await store.create(FRAMEWORKS, a_framework())

        assert await store.get(FRAMEWORKS, "default", "mnist") == created


@pytest.mark.parametrize("committed", [True, False])
async def test_an_unknown_outcome_is_reported_and_resolved_before_the_next_write(
    path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    async with open_store(path) as store:
        old = await store.create(FRAMEWORKS, a_framework("old"))
        watch = store.watch(FRAMEWORKS, since=version_of(old))
        write = Database._write

        def failed(database: Database, connection: Any, entries: Any) -> None:
            if committed:
                write(database, connection, entries)
            raise io_error()

        def unreadable(database: Database) -> Any:
            raise io_error()

        with monkeypatch.context() as broken:
            broken.setattr(Database, "_write", failed)
            broken.setattr(Database, "_connect", unreadable)
            with pytest.raises(OutcomeUnknown, match="cannot be read back"):
                await store.create(FRAMEWORKS, a_framework("unknown"))
            with pytest.raises(Unavailable, match="until the last writes are known") as caught:
                await store.create(FRAMEWORKS, a_framework("next"))
            assert not isinstance(caught.value, OutcomeUnknown)
            assert (await store.list(FRAMEWORKS)).items == [old]

        created = await store.create(FRAMEWORKS, a_framework("next"))
        expected = ["unknown", "next"] if committed else ["next"]
        assert [
            change.object["metadata"]["name"] for change in await next_changes(watch, len(expected))
        ] == expected
        assert names((await store.list(FRAMEWORKS)).items) == sorted(["old", *expected])
        assert version_of(created) > version_of(old)
        state = (await store.list(FRAMEWORKS)).items

    async with open_store(path) as store:
        assert (await store.list(FRAMEWORKS)).items == state
