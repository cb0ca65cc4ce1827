"""What the SQLite store promises beyond the port: one file, group commit, and the truth about a disk that fails."""

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
from tests.store.builders import (
    NOW,
    PATIENCE,
    a_framework,
    an_object,
    changes,
    names,
    now_in,
    uids,
    version_of,
    with_,
    with_metadata,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())
    try:
        yield store
    finally:
        await store.close()


async def many(store: Store, count: int, first: int = 0, size: int = 0) -> list[Any]:
    """The answers, or errors, of so many creates at once."""
    objects = (a_framework(f"f-{n}", annotations={"a": "x" * size}) for n in range(first, first + count))
    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(
            *(store.create(FRAMEWORKS, obj) for obj in objects), return_exceptions=True
        )


# The file


async def test_everything_is_there_after_a_restart(path: Path) -> None:
    async with opened(path) as store:
        made = await store.create(FRAMEWORKS, a_framework("a", labels={"x": "y"}))
        made = await store.update_status(FRAMEWORKS, with_(made, status={"state": "Running"}))
        held = await store.create(FRAMEWORKS, a_framework("b", finalizers=["x/y"]))
        held = await store.delete(FRAMEWORKS, "default", "b")
        config = await store.create(CONFIG_MAPS, an_object(CONFIG_MAPS, "c", data={"é": "\u2028\x00"}))
        version = await now_in(store)

    async with opened(path) as store:
        page = await store.list(FRAMEWORKS)
        assert (list(page.items), page.version) == ([made, held], version)
        assert await store.get(CONFIG_MAPS, "default", "c") == config
        await store.update(FRAMEWORKS, with_metadata(held, finalizers=None))
        assert names((await store.list(FRAMEWORKS)).items) == ["a"]


async def test_versions_go_on_after_a_restart_even_when_the_last_was_a_deletion(path: Path) -> None:
    async with opened(path) as store:
        await store.create(FRAMEWORKS, a_framework())
        await store.delete(FRAMEWORKS, "default", "mnist")
        before = await now_in(store)

    async with opened(path) as store:
        assert await now_in(store) == before
        assert version_of(await store.create(FRAMEWORKS, a_framework())) > before


async def test_a_watch_goes_on_after_a_restart_only_from_the_last_version(path: Path) -> None:
    async with opened(path) as store:
        made = await store.create(FRAMEWORKS, a_framework("a"))
        last = await store.create(FRAMEWORKS, a_framework("b"))

    async with opened(path) as store:
        await store.delete(FRAMEWORKS, "default", "a")
        (change,) = await changes(store.watch(FRAMEWORKS, since=version_of(last)), 1)
        with pytest.raises(Exception, match="list again"):
            await changes(store.watch(FRAMEWORKS, since=version_of(made)), 1)

    assert change.happened is ChangeType.DELETED


async def test_the_file_is_in_wal_mode_with_full_sync(path: Path) -> None:
    async with opened(path) as store:
        connection = store._database._connection
        assert connection is not None
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


# Group commit


async def test_writes_that_come_together_share_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    commit = Database.commit

    def counted(self: Database, entries: Any) -> None:
        sizes.append(len(entries))
        commit(self, entries)

    monkeypatch.setattr(Database, "commit", counted)
    async with opened(path) as store:
        await many(store, 100)

        assert sizes == [100]
        assert len((await store.list(FRAMEWORKS)).items) == 100


class Gate:
    """Holds commits up, so that a test can look around meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self.begun = threading.Event()
        commit = Database.commit

        def held(database: Database, entries: Any) -> None:
            self.begun.set()
            assert self._open.wait(PATIENCE)
            commit(database, entries)

        monkeypatch.setattr(Database, "commit", held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


async def test_nobody_sees_a_write_before_it_is_committed(path: Path, gate: Gate) -> None:
    async with opened(path) as store:
        watch = store.watch(FRAMEWORKS, since=0)
        heard = asyncio.ensure_future(anext(watch))
        creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await gate.reached()

        assert (await store.list(FRAMEWORKS)).items == []
        with pytest.raises(NotFound):
            await store.get(FRAMEWORKS, "default", "mnist")
        assert not heard.done()
        assert not creating.done()

        gate.open()
        made = await creating
        assert (await heard).object == made
        assert await store.get(FRAMEWORKS, "default", "mnist") == made


async def test_a_write_builds_on_those_still_under_way(path: Path, gate: Gate) -> None:
    async with opened(path) as store:
        creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await gate.reached()
        deleting = asyncio.create_task(store.delete(FRAMEWORKS, "default", "mnist"))
        again = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await asyncio.sleep(0)
        gate.open()

        first, _, second = await asyncio.gather(creating, deleting, again)

        assert await store.get(FRAMEWORKS, "default", "mnist") == second
        assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_a_refusal_waits_until_its_reason_will_last(path: Path, gate: Gate) -> None:
    async with opened(path) as store:
        creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await gate.reached()
        refused = asyncio.create_task(store.create(FRAMEWORKS, a_framework()))
        await asyncio.sleep(0)
        assert not refused.done()

        gate.open()
        await creating
        with pytest.raises(AlreadyExists):
            await refused


async def test_close_waits_for_the_writes_under_way(path: Path, gate: Gate) -> None:
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
    assert len(await changes(watch, 2)) == 2
    with pytest.raises(Unavailable, match="closed"):
        await changes(watch, 1)
    async with opened(path) as store:
        assert names((await store.list(FRAMEWORKS)).items) == ["first", "second"]


async def test_a_caller_who_gives_up_while_the_disk_works_harms_nobody(path: Path, gate: Gate) -> None:
    async with opened(path) as store:
        gives_up = asyncio.create_task(store.create(FRAMEWORKS, a_framework("a")))
        waits = asyncio.create_task(store.create(FRAMEWORKS, a_framework("b")))
        await gate.reached()
        refused = asyncio.create_task(store.create(FRAMEWORKS, a_framework("a")))
        await asyncio.sleep(0)
        gives_up.cancel()
        gate.open()

        await waits
        with pytest.raises(AlreadyExists):
            await refused
        assert names((await store.list(FRAMEWORKS)).items) == ["a", "b"]


# A disk that fails


@contextlib.contextmanager
def full_disk(store: SqliteStore) -> Iterator[None]:
    """SQLite may not make the file any larger."""
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
    """SQLite may not write."""
    connection = store._database._connection
    assert connection is not None
    connection.execute("PRAGMA query_only = 1")
    yield
    connection.execute("PRAGMA query_only = 0")


@contextlib.contextmanager
def failing_writes(store: SqliteStore) -> Iterator[None]:
    """The system refuses to make any file longer than the log is now: an I/O error in the middle of a commit."""
    log = store._database._path.with_name("store.db-wal")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("disk", [full_disk, read_only_disk, failing_writes])
async def test_a_disk_that_fails_is_unavailable_with_nothing_half_written(path: Path, disk: Any) -> None:
    async with opened(path) as store:
        await many(store, 20, size=5_000)
        made = (await store.list(FRAMEWORKS)).items
        watch = store.watch(FRAMEWORKS, since=await now_in(store))

        with disk(store):
            answers = await many(store, 20, first=100, size=5_000)
            during = await store.list(FRAMEWORKS)
        after = await many(store, 20, first=100, size=5_000)

        assert {type(answer) for answer in answers} in ({Unavailable}, {DiskFull})
        assert str(path) in str(answers[0])
        assert during.items == made
        assert [change.object for change in await changes(watch, 20)] == after
        state = (await store.list(FRAMEWORKS)).items
    async with opened(path) as store:
        assert (await store.list(FRAMEWORKS)).items == state


async def test_what_was_built_on_a_failed_write_fails_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as store:
        old = await store.create(FRAMEWORKS, a_framework("old"))
        gate = Gate(monkeypatch)
        with read_only_disk(store):
            creating = asyncio.create_task(store.create(FRAMEWORKS, a_framework("new")))
            updating = asyncio.create_task(store.update(FRAMEWORKS, with_(old, spec={})))
            await gate.reached()
            deleting = asyncio.create_task(store.delete(FRAMEWORKS, "default", "new"))
            refused = asyncio.create_task(store.create(FRAMEWORKS, a_framework("new")))
            conflict = asyncio.create_task(store.update(FRAMEWORKS, with_(old, spec=[])))
            await asyncio.sleep(0)
            gate.open()
            tasks = (creating, updating, deleting, refused, conflict)
            answers = await asyncio.gather(*tasks, return_exceptions=True)

        # Neither AlreadyExists nor Conflict: what they would rest on never was.
        assert [type(answer) for answer in answers] == [Unavailable] * 5
        assert (await store.list(FRAMEWORKS)).items == [old]
        assert (await store.update(FRAMEWORKS, with_(old, spec={})))["spec"] == {}


async def test_a_commit_that_fails_midway_leaves_nothing_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as store:
        old = await store.create(FRAMEWORKS, a_framework("old"))
        with monkeypatch.context() as broken:
            broken.setattr(database, "_deletions", lambda *_: [("DELETE FROM nowhere", [])])
            calls = store.create(FRAMEWORKS, a_framework("new")), store.delete(FRAMEWORKS, "default", "old")
            answers = await asyncio.gather(*calls, return_exceptions=True)

        assert [type(answer) for answer in answers] == [StoreCorrupted, StoreCorrupted]
        assert (await store.list(FRAMEWORKS)).items == [old]
    async with opened(path) as store:
        assert (await store.list(FRAMEWORKS)).items == [old]


def io_error() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


async def test_a_commit_that_took_effect_although_it_failed_is_told_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as store:
        write = Database._write

        def written_then_failed(database: Database, connection: Any, entries: Any) -> None:
            write(database, connection, entries)
            raise io_error()

        monkeypatch.setattr(Database, "_write", written_then_failed)
        made = await store.create(FRAMEWORKS, a_framework())

        assert await store.get(FRAMEWORKS, "default", "mnist") == made


@pytest.mark.parametrize("in_the_file", [True, False])
async def test_an_unknown_outcome_is_said_to_be_and_found_out_before_the_next_write(
    path: Path, monkeypatch: pytest.MonkeyPatch, in_the_file: bool
) -> None:
    async with opened(path) as store:
        old = await store.create(FRAMEWORKS, a_framework("old"))
        watch = store.watch(FRAMEWORKS, since=version_of(old))
        write = Database._write

        def failed(database: Database, connection: Any, entries: Any) -> None:
            if in_the_file:
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

        made = await store.create(FRAMEWORKS, a_framework("next"))
        expected = ["unknown", "next"] if in_the_file else ["next"]
        assert [
            change.object["metadata"]["name"] for change in await changes(watch, len(expected))
        ] == expected
        assert names((await store.list(FRAMEWORKS)).items) == sorted(["old", *expected])
        assert version_of(made) > version_of(old)
        state = (await store.list(FRAMEWORKS)).items

    async with opened(path) as store:
        assert (await store.list(FRAMEWORKS)).items == state
