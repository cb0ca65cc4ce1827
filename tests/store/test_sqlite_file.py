"""Whose file it is, and what happens to one that is damaged, foreign, newer, or in use: nothing."""

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
from tests.store.builders import NOW, PATIENCE, a_framework, uids, with_


async def opened(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())


async def filled(path: Path, count: int = 20) -> list[Object]:
    """The objects of a new store in that file, closed again."""
    store = await opened(path)
    for n in range(count):
        made = await store.create(FRAMEWORKS, a_framework(f"f-{n:02}", annotations={"a": f"{n}" * 400}))
        if n % 2:
            await store.update_status(FRAMEWORKS, with_(made, status={"a": f"{n}" * 100}))
    items = list((await store.list(FRAMEWORKS)).items)
    await store.close()
    return items


def contents(directory: Path) -> dict[str, bytes]:
    """Every file that holds data."""
    return {
        file.name: file.read_bytes()
        for file in directory.iterdir()
        if not file.name.endswith((".lock", "-shm"))
    }


async def refusal(path: Path) -> str:
    """What the store says, having changed nothing."""
    before = contents(path.parent)
    with pytest.raises(StoreCorrupted) as caught:
        await opened(path)
    after = contents(path.parent)
    assert {name: after[name] for name in before} == before
    assert not any(after[name] for name in after.keys() - before.keys())
    return str(caught.value)


async def said_by(script: str, path: Path) -> str:
    """What a process with that script says of that path."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode().strip()


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("dear diary, " * 1000)

    assert str(path) in await refusal(path)


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE objects (a)")
    connection.close()

    assert "another program" in await refusal(path)


async def test_a_database_of_a_newer_launcher_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await filled(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    message = await refusal(path)

    assert "newer launcher" in message
    assert "99" in message


async def test_any_damage_is_seen_or_harmless_and_a_damaged_file_is_left_alone(tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    items = await filled(whole)
    chance = random.Random(4)
    refused = 0

    for n in range(150):
        directory = tmp_path / str(n)
        directory.mkdir()
        damaged = directory / "store.db"
        content = bytearray(whole.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        damaged.write_bytes(content)

        try:
            store = await opened(damaged)
        except StoreCorrupted:
            refused += 1
            await refusal(damaged)
        else:
            assert (await store.list(FRAMEWORKS)).items == items, at
            await store.close()

    assert refused > 20  # much of a file is room to grow, where damage does no harm


async def test_a_status_whose_object_is_missing_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await filled(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM objects WHERE number = (SELECT max(number) FROM statuses)")
    connection.close()

    assert "without its object" in await refusal(path)


async def test_a_file_cut_short_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await filled(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)

    assert "damaged" in await refusal(path)


async def test_damage_beside_a_log_that_was_not_merged_leaves_both_alone(tmp_path: Path) -> None:
    path, crashed = tmp_path / "store.db", tmp_path / "crashed"
    crashed.mkdir()
    items = await filled(path)
    store = await opened(path)
    items.append(await store.create(FRAMEWORKS, a_framework("in-the-log")))
    for name in ("store.db", "store.db-wal"):
        shutil.copy(tmp_path / name, crashed / name)
    await store.close()
    good = (crashed / "store.db").read_bytes()
    assert len((crashed / "store.db-wal").read_bytes()) > 0
    (crashed / "store.db").write_bytes(good.replace(b"777777", b"777778"))

    assert "not as it was written" in await refusal(crashed / "store.db")

    (crashed / "store.db").write_bytes(good)
    store = await opened(crashed / "store.db")
    assert (await store.list(FRAMEWORKS)).items == items
    await store.close()


async def test_a_second_process_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    script = (
        "import asyncio, pathlib, sys\n"
        "from launcher.store.embedded.sqlite_store import SqliteStore\n"
        "from launcher.core.errors import StoreCorrupted\n"
        "try: asyncio.run(SqliteStore.open(pathlib.Path(sys.argv[1]), clock=lambda: 0.0, new_uid=str))\n"
        "except StoreCorrupted as error: print(error)\n"
    )
    store = await opened(path)

    said = await said_by(script, path)

    assert said == (
        f"{path} is in use by another launcher (process {os.getpid()}): stop that one, or choose another data directory"
    )
    made = await store.create(FRAMEWORKS, a_framework())
    await store.close()
    store = await opened(path)
    assert (await store.list(FRAMEWORKS)).items == [made]
    await store.close()


async def test_an_older_file_is_brought_up_to_date_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    items = await filled(path)
    steps = (
        ["CREATE TABLE second (a)"],
        ["ALTER TABLE second RENAME TO third", "INSERT INTO third VALUES (7)"],
    )
    monkeypatch.setattr(database_file, "MIGRATIONS", (*database_file.MIGRATIONS, *steps))

    for _ in range(2):
        store = await opened(path)
        assert (await store.list(FRAMEWORKS)).items == items
        await store.close()

    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT a FROM third").fetchall() == [(7,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (len(database_file.MIGRATIONS),)
    connection.close()


async def test_a_step_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    items = await filled(path)
    with monkeypatch.context() as future:
        future.setattr(
            database_file, "MIGRATIONS", (*database_file.MIGRATIONS, ["DROP TABLE objects", "nonsense"])
        )
        with pytest.raises(StoreCorrupted, match="nonsense"):
            await opened(path)

    store = await opened(path)
    assert (await store.list(FRAMEWORKS)).items == items
    await store.close()


async def test_a_file_that_was_only_begun_is_made_ready(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0

    store = await opened(path)
    await store.create(FRAMEWORKS, a_framework())
    await store.close()


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-directory"):
        await opened(tmp_path / "no-such-directory" / "store.db")


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


@pytest.mark.parametrize("with_lock", [True, False])
async def test_a_place_that_cannot_be_written_is_unavailable_and_unchanged(
    public_directory: Path, with_lock: bool
) -> None:
    path = public_directory / "store.db"
    await filled(path)
    lock = public_directory / "store.db.lock"
    if with_lock:
        lock.chmod(0o666)
    else:
        lock.unlink()
    make_read_only(path)
    before = contents(public_directory)

    said = await said_by(READ_ONLY, path)

    assert said.startswith(f"Unavailable {path}")
    assert contents(public_directory) == before


def make_read_only(path: Path) -> None:
    path.chmod(0o444)
    path.parent.chmod(0o555)
