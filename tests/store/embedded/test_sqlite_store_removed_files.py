"""A store whose files are removed or replaced while it is open acknowledges no write."""

import logging
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.core.errors import OutcomeUnknown, Unavailable
from launcher.store.embedded.sqlite_file import Database
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS
from tests.store.builders import NOW, a_framework, names, uids

FILES = ("store.db", "store.db-wal", "store.db-shm", "store.commits")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    os.mkdir(tmp_path / "data")
    store = await SqliteStore.open(tmp_path / "data" / "store.db", clock=lambda: NOW, new_uid=uids())
    await store.create(FRAMEWORKS, a_framework("first"))
    yield store
    await store.close()


async def write_error(store: SqliteStore) -> str:
    """The error of writes and of the readiness check, which is the same."""
    with pytest.raises(Unavailable) as caught:
        await store.create(FRAMEWORKS, a_framework("refused"))
    with pytest.raises(Unavailable) as check_error:
        await store.check()
    assert str(caught.value).startswith(str(check_error.value))
    assert not isinstance(caught.value, OutcomeUnknown)
    assert names((await store.list(FRAMEWORKS)).items) == ["first"]
    return str(caught.value)


async def test_a_store_whose_directory_is_removed_rejects_writes_and_does_not_recreate_it(
    store: SqliteStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.check()
    shutil.rmtree(tmp_path / "data")

    for _ in range(3):
        assert "removed or replaced" in await write_error(store)

    assert os.listdir(tmp_path) == []
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("file", FILES)
async def test_a_store_rejects_writes_while_one_of_its_files_is_missing(
    store: SqliteStore, tmp_path: Path, file: str
) -> None:
    os.unlink(tmp_path / "data" / file)

    assert file in await write_error(store)


@pytest.mark.parametrize("file", FILES)
async def test_a_store_rejects_writes_while_one_of_its_files_is_replaced(
    store: SqliteStore, tmp_path: Path, file: str
) -> None:
    shutil.copy(tmp_path / "data" / file, tmp_path / "copy")
    os.rename(tmp_path / "copy", tmp_path / "data" / file)

    assert file in await write_error(store)


async def test_a_directory_that_is_moved_back_is_used_again(store: SqliteStore, tmp_path: Path) -> None:
    os.rename(tmp_path / "data", tmp_path / "away")
    await write_error(store)

    os.rename(tmp_path / "away", tmp_path / "data")

    await store.check()
    await store.create(FRAMEWORKS, a_framework("second"))
    assert names((await store.list(FRAMEWORKS)).items) == ["first", "second"]


async def test_a_commit_during_which_the_files_are_removed_is_not_acknowledged(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Database._write

    def written_then_removed(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]  # passed on unchanged
        os.rename(tmp_path / "data", tmp_path / "away")

    with monkeypatch.context() as removing:
        removing.setattr(Database, "_write", written_then_removed)
        with pytest.raises(OutcomeUnknown, match="removed or replaced"):
            await store.create(FRAMEWORKS, a_framework("second"))
    assert "removed or replaced" in await write_error(store)

    os.rename(tmp_path / "away", tmp_path / "data")
    await store.create(FRAMEWORKS, a_framework("third"))
    assert names((await store.list(FRAMEWORKS)).items) == ["first", "second", "third"]


async def test_closing_a_store_does_not_change_the_store_that_replaced_its_files(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data" / "store.db"
    os.mkdir(tmp_path / "data")
    first = await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())
    os.rename(tmp_path / "data", tmp_path / "away")
    os.mkdir(tmp_path / "data")
    second = await SqliteStore.open(path, clock=lambda: NOW, new_uid=uids())
    await second.create(FRAMEWORKS, a_framework("second"))

    await first.close()

    await second.check()
    await second.create(FRAMEWORKS, a_framework("third"))
    await second.close()
