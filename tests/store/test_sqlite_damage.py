"""Damage to the files of a store that was killed: it is detected, or nothing acknowledged is lost."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.core.errors import StoreCorrupted
from launcher.store.embedded import sqlite_file
from launcher.store.embedded.commit_record import CommitRecord, State
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.store.builders import NOW, a_framework, uids, version_of, with_

TRIALS = 56
FILES = ("store.db", "store.db-wal", "store.commits")
Damage = Callable[[bytearray, random.Random], None]


async def opened(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())


async def killed(directory: Path) -> list[Object]:
    """What was acknowledged by a store whose files, as a killed process leaves them, are in *directory*."""
    working = directory.with_name(f"{directory.name}-working")
    working.mkdir()
    store = await opened(working / "store.db")
    for n in range(40):
        made = await store.create(FRAMEWORKS, a_framework(f"f-{n:02}", annotations={"a": f"{n}" * 400}))
        if n % 2:
            await store.update_status(FRAMEWORKS, with_(made, status={"a": f"{n}" * 100}))
        if n % 5 == 4:
            await store.delete(FRAMEWORKS, "default", f"f-{n - 2:02}")
    items = list((await store.list(FRAMEWORKS)).items)
    shutil.copytree(working, directory, ignore=shutil.ignore_patterns("*.lock", "*-shm"))
    await store.close()
    return items


def flip_a_bit(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def flip_a_bit_near_the_end(content: bytearray, chance: random.Random) -> None:
    content[-1 - chance.randrange(min(len(content), 4096))] ^= 1 << chance.randrange(8)


def cut_short(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def cut_to_whole_frames(content: bytearray, chance: random.Random) -> None:
    frame = 24 + 16384
    del content[32 + frame * chance.randrange(max(1, len(content) // frame)) :]


def zero_a_sector(content: bytearray, chance: random.Random) -> None:
    first = chance.randrange(len(content)) // 512 * 512
    content[first : first + 512] = bytes(len(content[first : first + 512]))


def zero_a_page(content: bytearray, chance: random.Random) -> None:
    first = chance.randrange(len(content)) // 16384 * 16384
    content[first : first + 16384] = bytes(len(content[first : first + 16384]))


def empty(content: bytearray, chance: random.Random) -> None:
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
    monkeypatch.setattr(sqlite_file, "_LOG_PAGES", request.param)


@pytest.mark.usefixtures("log_pages")
@pytest.mark.parametrize("file", FILES)
async def test_any_damage_is_detected_or_loses_nothing_acknowledged(tmp_path: Path, file: str) -> None:
    chance = random.Random(file)
    items = await killed(tmp_path / "whole")
    refused = 0

    for n in range(TRIALS):
        directory = tmp_path / str(n)
        shutil.copytree(tmp_path / "whole", directory)
        damage = DAMAGES[n % len(DAMAGES)]
        content = bytearray((directory / file).read_bytes())
        damage(content, chance)
        (directory / file).write_bytes(content)
        before = {name: (directory / name).read_bytes() for name in FILES}
        try:
            store = await opened(directory / "store.db")
        except StoreCorrupted:
            refused += 1
            assert {name: (directory / name).read_bytes() for name in FILES} == before
        else:
            assert (await store.list(FRAMEWORKS)).items == items, (n, damage.__name__)
            await store.close()
        shutil.rmtree(directory)

    assert refused > TRIALS // 10


@pytest.mark.usefixtures("log_pages")
async def test_a_killed_store_opens_again(tmp_path: Path) -> None:
    items = await killed(tmp_path / "whole")

    store = await opened(tmp_path / "whole" / "store.db")

    assert (await store.list(FRAMEWORKS)).items == items
    await store.close()


@pytest.mark.parametrize("file", ["store.db", "store.db-wal"])
async def test_a_missing_file_is_detected(tmp_path: Path, file: str) -> None:
    await killed(tmp_path / "whole")
    (tmp_path / "whole" / file).unlink()

    with pytest.raises(StoreCorrupted, match="launcher store"):
        await opened(tmp_path / "whole" / "store.db")


async def test_the_error_names_what_is_lost(tmp_path: Path) -> None:
    items = await killed(tmp_path / "whole")
    (tmp_path / "whole" / "store.db-wal").write_bytes(b"")
    last = max(map(version_of, items)) + 1  # the deletion after it

    with pytest.raises(StoreCorrupted) as caught:
        await opened(tmp_path / "whole" / "store.db")

    assert "\n" not in str(caught.value)
    assert f"version {last}" in str(caught.value)


async def test_a_file_of_an_older_launcher_opens_and_is_recorded_from_then_on(tmp_path: Path) -> None:
    items = await killed(tmp_path / "whole")
    (tmp_path / "whole" / "store.commits").unlink()

    for _ in range(2):
        store = await opened(tmp_path / "whole" / "store.db")
        assert (await store.list(FRAMEWORKS)).items == items
        await store.close()

    assert (tmp_path / "whole" / "store.commits").stat().st_size > 0


async def test_a_commit_that_was_not_acknowledged_yet_may_be_in_the_file_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, under_way = tmp_path / "store.db", {}
    begin = CommitRecord.begin

    def begun(record: CommitRecord, state: State) -> None:
        begin(record, state)
        under_way["store.commits"] = (tmp_path / "store.commits").read_bytes()

    monkeypatch.setattr(CommitRecord, "begin", begun)
    store = await opened(path)
    await store.create(FRAMEWORKS, a_framework("first"))
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    await store.create(FRAMEWORKS, a_framework("second"))
    after = {name: (tmp_path / name).read_bytes() for name in FILES}
    await store.close()

    for number, (files, count) in enumerate([(before | under_way, 1), (after | under_way, 2)]):
        directory = tmp_path / str(number)
        os.mkdir(directory)
        for name, content in files.items():
            (directory / name).write_bytes(content)
        store = await opened(directory / "store.db")
        assert len((await store.list(FRAMEWORKS)).items) == count
        await store.close()
