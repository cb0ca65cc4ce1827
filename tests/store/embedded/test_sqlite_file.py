"""Files that are damaged, foreign, newer or in use are rejected and not changed."""

import asyncio
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.core.errors import StoreCorrupted, Unavailable
from launcher.store.embedded import database_file
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import NOW, a_framework, uids, with_


async def open_store(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())


async def create_store(path: Path, count: int = 20) -> list[Object]:
    """Creates a store with objects in that file and closes it. Returns the objects."""
    store = await open_store(path)
    for n in range(count):
        created = await store.create(FRAMEWORKS, a_framework(f"f-{n:02}", annotations={"a": f"{n}" * 400}))
        if n % 2:
            await store.update_status(FRAMEWORKS, with_(created, status={"a": f"{n}" * 100}))
    items = list((await store.list(FRAMEWORKS)).items)
    await store.close()
    return items


def contents(directory: Path) -> dict[str, bytes]:
    """The content of every file that contains data."""
    return {
        file.name: file.read_bytes()
        for file in directory.iterdir()
        if not file.name.endswith((".lock", "-shm"))
    }


async def open_error(path: Path) -> str:
    """Returns the error of opening the store, which must leave the file unchanged."""
    before = contents(path.parent)
    with pytest.raises(StoreCorrupted) as caught:
        await open_store(path)
    after = contents(path.parent)
    assert {name: after[name] for name in before} == before
    assert not any(after[name] for name in after.keys() - before.keys())
    return str(caught.value)


async def output_of(script: str, path: Path) -> str:
    """Returns the output of a process that runs the script with that path."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode().strip()


async def test_a_file_that_is_no_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("not a database " * 1000)

    assert str(path) in await open_error(path)


async def test_a_database_of_another_program_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE objects (a)")
    connection.close()

    assert "another program" in await open_error(path)


async def test_a_database_of_a_newer_launcher_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await create_store(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    message = await open_error(path)

    assert "newer launcher" in message
    assert "99" in message


async def test_any_damage_is_detected_or_harmless_and_the_file_is_not_changed(tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    items = await create_store(whole)
    rng = random.Random(4)
    rejected = 0

    for n in range(150):
        directory = tmp_path / str(n)
        directory.mkdir()
        damaged = directory / "store.db"
        content = bytearray(whole.read_bytes())
        offset = rng.randrange(len(content))
        content[offset] ^= 1 << rng.randrange(8)
        damaged.write_bytes(content)

        try:
            store = await open_store(damaged)
        except StoreCorrupted:
            rejected += 1
            await open_error(damaged)
        else:
            assert (await store.list(FRAMEWORKS)).items == items, offset
            await store.close()

    assert rejected > 20  # much of a file is unused space, where damage is harmless


async def test_a_status_whose_object_is_missing_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await create_store(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM objects WHERE number = (SELECT max(number) FROM statuses)")
    connection.close()

    assert "has no object" in await open_error(path)


async def test_a_truncated_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await create_store(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)

    assert "damaged" in await open_error(path)


async def test_a_damaged_file_and_its_log_are_not_changed(tmp_path: Path) -> None:
    path, crashed = tmp_path / "store.db", tmp_path / "crashed"
    crashed.mkdir()
    items = await create_store(path)
    store = await open_store(path)
    items.append(await store.create(FRAMEWORKS, a_framework("in-the-log")))
    for name in ("store.db", "store.db-wal"):
        shutil.copy(tmp_path / name, crashed / name)
    await store.close()
    good = (crashed / "store.db").read_bytes()
    assert len((crashed / "store.db-wal").read_bytes()) > 0
    (crashed / "store.db").write_bytes(good.replace(b"777777", b"777778"))

    assert "does not match its checksum" in await open_error(crashed / "store.db")

    (crashed / "store.db").write_bytes(good)
    store = await open_store(crashed / "store.db")
    assert (await store.list(FRAMEWORKS)).items == items
    await store.close()


async def test_a_second_process_is_rejected_with_the_id_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    script = (
        "import asyncio, pathlib, sys\n"
        "from launcher.store.embedded.sqlite_store import SqliteStore\n"
        "from launcher.core.errors import StoreCorrupted\n"
        "try: asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1]), clock=lambda: 0.0, new_uid=str))\n"
        "except StoreCorrupted as error: print(error)\n"
    )
    store = await open_store(path)

    output = await output_of(script, path)

    assert output == (
        f"{path} is in use by another launcher (process {os.getpid()}): stop that one, or choose another data directory"
    )
    created = await store.create(FRAMEWORKS, a_framework())
    await store.close()
    store = await open_store(path)
    assert (await store.list(FRAMEWORKS)).items == [created]
    await store.close()


async def test_an_older_file_is_migrated_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    items = await create_store(path)
    steps = (
        ["CREATE TABLE second (a)"],
        ["ALTER TABLE second RENAME TO third", "INSERT INTO third VALUES (7)"],
    )
    monkeypatch.setattr(database_file, "MIGRATIONS", (*database_file.MIGRATIONS, *steps))

    for _ in range(2):
        store = await open_store(path)
        assert (await store.list(FRAMEWORKS)).items == items
        await store.close()

    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT a FROM third").fetchall() == [(7,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (len(database_file.MIGRATIONS),)
    connection.close()


async def test_a_failed_migration_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    items = await create_store(path)
    with monkeypatch.context() as future:
        future.setattr(
            database_file, "MIGRATIONS", (*database_file.MIGRATIONS, ["DROP TABLE objects", "nonsense"])
        )
        with pytest.raises(StoreCorrupted, match="nonsense"):
            await open_store(path)

    store = await open_store(path)
    assert (await store.list(FRAMEWORKS)).items == items
    await store.close()


async def test_an_incompletely_created_file_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0

    store = await open_store(path)
    await store.create(FRAMEWORKS, a_framework())
    await store.close()


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-directory"):
        await open_store(tmp_path / "no-such-directory" / "store.db")


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
        directory.chmod(0o755)


READ_ONLY = """
import asyncio, os, pathlib, sys
from launcher.core.errors import LauncherError
from launcher.store.embedded.sqlite_store import SqliteStore
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)  # the superuser may write anywhere
try:
    asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1]), clock=lambda: 0.0, new_uid=str))
except LauncherError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(("with_lock", "file"), [(True, "store.commits"), (False, "store.db.lock")])
async def test_an_unwritable_directory_is_unavailable_and_unchanged(
    public_directory: Path, with_lock: bool, file: str
) -> None:
    path = public_directory / "store.db"
    await create_store(path)
    lock = public_directory / "store.db.lock"
    if with_lock:
        lock.chmod(0o666)
    else:
        lock.unlink()
    make_read_only(path)
    before = contents(public_directory)

    output = await output_of(READ_ONLY, path)

    assert output == f"Unavailable {public_directory / file}: Permission denied"
    assert contents(public_directory) == before


def make_read_only(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)
