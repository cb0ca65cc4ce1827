"""Damage to the files of a killed store is detected, or no acknowledged write is lost."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.core.errors import StoreCorrupted
from launcher.store.embedded import sqlite_file
from launcher.store.embedded.commit_record import CommitRecord, DatabaseState
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.store.builders import NOW, a_framework, uids, version_of, with_

DAMAGED_COPIES = 56
FILES = ("store.db", "store.db-wal", "store.commits")
Damage = Callable[[bytearray, random.Random], None]


async def open_store(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())


async def create_killed_store(directory: Path) -> list[Object]:
    """Leaves the files of a killed store in *directory*. Returns the acknowledged objects."""
    working = directory.with_name(f"{directory.name}-working")
    working.mkdir()
    store = await open_store(working / "store.db")
    for n in range(40):
        created = await store.create(FRAMEWORKS, a_framework(f"f-{n:02}", annotations={"a": f"{n}" * 400}))
        if n % 2:
            await store.update_status(FRAMEWORKS, with_(created, status={"a": f"{n}" * 100}))
        if n % 5 == 4:
            await store.delete(FRAMEWORKS, "default", f"f-{n - 2:02}")
    items = list((await store.list(FRAMEWORKS)).items)
    shutil.copytree(working, directory, ignore=shutil.ignore_patterns("*.lock", "*-shm"))
    await store.close()
    return items


def flip_a_bit(content: bytearray, rng: random.Random) -> None:
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def flip_a_bit_near_the_end(content: bytearray, rng: random.Random) -> None:
    content[-1 - rng.randrange(min(len(content), 4096))] ^= 1 << rng.randrange(8)


def cut_short(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(len(content)) :]


def cut_to_whole_frames(content: bytearray, rng: random.Random) -> None:
    frame = 24 + 16384
    del content[32 + frame * rng.randrange(max(1, len(content) // frame)) :]


def zero_a_sector(content: bytearray, rng: random.Random) -> None:
    first = rng.randrange(len(content)) // 512 * 512
    content[first : first + 512] = bytes(len(content[first : first + 512]))


def zero_a_page(content: bytearray, rng: random.Random) -> None:
    first = rng.randrange(len(content)) // 16384 * 16384
    content[first : first + 16384] = bytes(len(content[first : first + 16384]))


def empty(content: bytearray, rng: random.Random) -> None:
    content.clear()


DAMAGES: tuple[Damage, ...] = (
    flip_a_bit,
    flip_a_bit_near_the_end,
    cut_short,
    cut_to_whole_frames,
    zero_a_sector,
    zero_a_page,
    empty,
)


@pytest.fixture(params=[1024, 12], ids=["everything in the log", "merged several times"])
def log_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_WAL_PAGES", request.param)


@pytest.mark.usefixtures("log_pages")
@pytest.mark.parametrize("file", FILES)
async def test_any_damage_is_detected_or_loses_no_acknowledged_write(tmp_path: Path, file: str) -> None:
    rng = random.Random(file)
    items = await create_killed_store(tmp_path / "whole")
    rejected = 0

    for n in range(DAMAGED_COPIES):
        directory = tmp_path / str(n)
        shutil.copytree(tmp_path / "whole", directory)
        damage = DAMAGES[n % len(DAMAGES)]
        content = bytearray((directory / file).read_bytes())
        damage(content, rng)
        (directory / file).write_bytes(content)
        before = {name: (directory / name).read_bytes() for name in FILES}
        try:
            store = await open_store(directory / "store.db")
        except StoreCorrupted:
            rejected += 1
            assert {name: (directory / name).read_bytes() for name in FILES} == before
        else:
            assert (await store.list(FRAMEWORKS)).items == items, (n, damage.__name__)
            await store.close()
        shutil.rmtree(directory)

    assert rejected > DAMAGED_COPIES // 10


@pytest.mark.usefixtures("log_pages")
async def test_a_killed_store_opens_again(tmp_path: Path) -> None:
    items = await create_killed_store(tmp_path / "whole")

    store = await open_store(tmp_path / "whole" / "store.db")

    assert (await store.list(FRAMEWORKS)).items == items
    await store.close()


@pytest.mark.parametrize("file", ["store.db", "store.db-wal"])
async def test_a_missing_file_is_detected(tmp_path: Path, file: str) -> None:
    await create_killed_store(tmp_path / "whole")
    (tmp_path / "whole" / file).unlink()

    with pytest.raises(StoreCorrupted, match="launcher store"):
        await open_store(tmp_path / "whole" / "store.db")


async def test_the_error_names_the_lost_version(tmp_path: Path) -> None:
    items = await create_killed_store(tmp_path / "whole")
    (tmp_path / "whole" / "store.db-wal").write_bytes(b"")
    last = max(map(version_of, items)) + 1  # the version of the deletion

    with pytest.raises(StoreCorrupted) as caught:
        await open_store(tmp_path / "whole" / "store.db")

    assert "\n" not in str(caught.value)
    assert f"version {last}" in str(caught.value)


async def test_a_store_without_a_commit_record_opens_and_gets_one(tmp_path: Path) -> None:
    items = await create_killed_store(tmp_path / "whole")
    (tmp_path / "whole" / "store.commits").unlink()

    for _ in range(2):
        store = await open_store(tmp_path / "whole" / "store.db")
        assert (await store.list(FRAMEWORKS)).items == items
        await store.close()

    assert (tmp_path / "whole" / "store.commits").stat().st_size > 0


async def test_an_unacknowledged_commit_may_be_stored_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, during_commit = tmp_path / "store.db", {}
    begin = CommitRecord.begin

    def record_begin(record: CommitRecord, state: DatabaseState) -> None:
        begin(record, state)
        during_commit["store.commits"] = (tmp_path / "store.commits").read_bytes()

    monkeypatch.setattr(CommitRecord, "begin", record_begin)
    store = await open_store(path)
    await store.create(FRAMEWORKS, a_framework("first"))
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    await store.create(FRAMEWORKS, a_framework("second"))
    after = {name: (tmp_path / name).read_bytes() for name in FILES}
    await store.close()

    for number, (files, count) in enumerate([(before | during_commit, 1), (after | during_commit, 2)]):
        directory = tmp_path / str(number)
        os.mkdir(directory)
        for name, content in files.items():
            (directory / name).write_bytes(content)
        store = await open_store(directory / "store.db")
        assert len((await store.list(FRAMEWORKS)).items) == count
        await store.close()
