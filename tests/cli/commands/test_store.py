"""``launcher store`` on a store that is not in use, and with invalid arguments."""

import asyncio
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import NOW, a_framework, names, uids, version_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with three Frameworks."""
    os.mkdir(tmp_path / "data")
    change(tmp_path / "data", "a", "b", "c")
    return tmp_path / "data"


def change(data: Path, *created: str, deleted: str | None = None) -> list[str]:
    """The names of all Frameworks, after some were created and one deleted."""

    async def work() -> list[str]:
        store = await SqliteStore.open(data / "store.db", clock=lambda: NOW, new_uid=uids())
        for name in created:
            await store.create(FRAMEWORKS, a_framework(name))
        if deleted:
            await store.delete(FRAMEWORKS, "default", deleted)
        found = names((await store.list(FRAMEWORKS)).items)
        await store.close()
        return found

    return asyncio.run(work())


def data_of_killed_launcher(data: Path) -> Path:
    """The data directory of a launcher that was killed with all its objects in the log."""
    after = data.with_name("killed")

    async def work() -> None:
        store = await SqliteStore.open(data / "store.db", clock=lambda: NOW, new_uid=uids())
        await store.create(FRAMEWORKS, a_framework("in-the-log"))
        shutil.copytree(data, after)
        await store.close()

    asyncio.run(work())
    return after


def error_line(capsys: Captured, *words: str, code: int = 2) -> str:
    """The only line of the error."""
    try:
        found = main(["store", *words])
    except SystemExit as end:
        found = int(end.code or 0)
    printed = capsys.readouterr()
    assert (found, printed.out) == (code, ""), printed
    lines = printed.err.strip().splitlines()
    assert "Traceback" not in printed.err
    assert len([line for line in lines if not line.startswith(("usage:", " "))]) == 1, lines
    return lines[-1]


def test_check_reports_the_content_of_an_intact_store(data: Path, capsys: Captured) -> None:
    assert main(["store", "check", "--data", str(data)]) == 0

    assert capsys.readouterr().out == f"{data}/store.db is intact: 3 objects, version 4\n"


def test_check_changes_nothing_and_reports_a_loss(data: Path, capsys: Captured) -> None:
    data = data_of_killed_launcher(data)
    (data / "store.db-wal").write_bytes(b"")
    before = {name: (data / name).read_bytes() for name in ("store.db", "store.db-wal", "store.commits")}

    line = error_line(capsys, "check", "--data", str(data), code=1)

    assert "acknowledged writes are lost" in line
    assert "launcher store restore FILE" in line
    assert {name: (data / name).read_bytes() for name in before} == before


def test_a_backup_is_one_file_for_its_owner_alone_and_can_be_restored(data: Path, capsys: Captured) -> None:
    backup = data.with_name("backup.db")
    assert main(["store", "backup", str(backup), "--data", str(data)]) == 0
    assert capsys.readouterr().out.startswith(f"{backup}: 3 objects, version 4, ")
    assert sorted(os.listdir(data.parent)) == ["backup.db", "data"]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600

    assert main(["store", "restore", str(backup), "--data", str(data.with_name("new"))]) == 0

    assert change(data.with_name("new")) == ["a", "b", "c"]


def test_a_backup_contains_writes_that_are_only_in_the_log(data: Path) -> None:
    data, backup = data_of_killed_launcher(data), data.with_name("backup.db")

    assert main(["store", "backup", str(backup), "--data", str(data)]) == 0

    assert main(["store", "restore", str(backup), "--data", str(data.with_name("new"))]) == 0
    assert change(data.with_name("new")) == ["a", "b", "c", "in-the-log"]


def test_restore_replaces_a_store_only_when_forced_and_keeps_its_files(data: Path, capsys: Captured) -> None:
    backup = data.with_name("backup.db")
    main(["store", "backup", str(backup), "--data", str(data)])
    change(data, "later", deleted="a")
    capsys.readouterr()

    assert "--force" in error_line(capsys, "restore", str(backup), "--data", str(data))
    assert change(data) == ["b", "c", "later"]
    assert main(["store", "restore", str(backup), "--data", str(data), "--force"]) == 0

    (kept,) = data.glob("store-replaced-*")
    assert str(kept) in capsys.readouterr().out
    assert sorted(os.listdir(kept)) == ["store.commits", "store.db"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert change(data) == ["a", "b", "c"]


def test_versions_continue_after_those_of_the_replaced_store(data: Path) -> None:
    backup = data.with_name("backup.db")
    main(["store", "backup", str(backup), "--data", str(data)])
    change(data, "d", "e", "f", deleted="f")
    main(["store", "restore", str(backup), "--data", str(data), "--force"])

    async def next_version() -> int:
        store = await SqliteStore.open(data / "store.db", clock=lambda: NOW, new_uid=uids())
        created = await store.create(FRAMEWORKS, a_framework("next"))
        await store.close()
        return version_of(created)

    assert asyncio.run(next_version()) == 9


def test_new_files_created_by_root_belong_to_the_owner_of_the_directory(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = data.with_name("backup.db")
    main(["store", "backup", str(backup), "--data", str(data)])
    before = {path.stat().st_ino for path in data.iterdir()}
    owners: set[int] = set()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, user, group: owners.add(os.stat(path).st_ino))

    assert main(["store", "restore", str(backup), "--data", str(data), "--force"]) == 0

    assert {path.name for path in data.iterdir() if path.stat().st_ino not in owners | before} == set()


def test_accept_loss_keeps_the_remaining_objects_and_the_damaged_files(data: Path, capsys: Captured) -> None:
    data = data_of_killed_launcher(data)
    (data / "store.db-wal").write_bytes(b"")

    assert main(["store", "accept-loss", "--data", str(data)]) == 0

    (kept,) = data.glob("store-replaced-*")
    assert capsys.readouterr().out == (
        f"{data}/store.db: 3 objects, version 5; the previous files are in {kept}\n"
    )
    assert change(data) == ["a", "b", "c"]


@pytest.mark.parametrize("value", [b"{}", "text", 7], ids=repr)
def test_accept_loss_removes_a_damaged_object(data: Path, value: object) -> None:
    connection = sqlite3.connect(data / "store.db")
    connection.execute("UPDATE objects SET main = ? WHERE number = 3", [value])
    connection.commit()
    connection.close()

    assert main(["store", "accept-loss", "--data", str(data)]) == 0

    assert change(data) == ["a", "c"]


def test_accept_loss_creates_a_new_store_where_the_database_is_missing(data: Path) -> None:
    os.unlink(data / "store.db")

    assert main(["store", "accept-loss", "--data", str(data)]) == 0

    assert change(data, "next") == ["next"]


def test_accept_loss_changes_nothing_in_an_intact_store(data: Path, capsys: Captured) -> None:
    assert main(["store", "accept-loss", "--data", str(data)]) == 0

    assert "nothing was changed" in capsys.readouterr().out
    assert list(data.glob("store-replaced-*")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--data", ""],
        ["backup", ""],
        ["backup"],
        ["restore", ""],
        ["restore", "backup.db", "--data", ""],
        ["accept-loss", "--data", ""],
        [],
        ["repair"],
    ],
    ids=" ".join,
)
def test_empty_and_missing_arguments_are_rejected(arguments: list[str], capsys: Captured) -> None:
    error_line(capsys, *arguments)


@pytest.mark.parametrize("action", [["check"], ["backup", "backup.db"], ["accept-loss"]], ids="-".join)
def test_a_directory_without_a_store_is_an_error(action: list[str], tmp_path: Path, capsys: Captured) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        line = error_line(capsys, *action, "--data", str(directory))

        assert f"no store in {directory}" in line
    assert os.listdir(tmp_path) == []


def test_a_backup_overwrites_nothing(data: Path, capsys: Captured) -> None:
    existing = data.with_name("existing")
    existing.write_text("mine")

    assert "already exists" in error_line(capsys, "backup", str(existing), "--data", str(data))
    assert "a directory" in error_line(capsys, "backup", str(data), "--data", str(data))
    assert "No such file" in error_line(
        capsys, "backup", str(data / "no" / "where"), "--data", str(data), code=1
    )
    assert existing.read_text() == "mine"


def test_only_an_intact_backup_is_restored(data: Path, capsys: Captured) -> None:
    text, nothing, foreign = (data.with_name(name) for name in ("text", "nothing", "foreign.db"))
    text.write_text("dear diary, " * 1000)
    nothing.write_bytes(b"")
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE objects (a)")
    connection.close()
    target = ["--data", str(data), "--force"]

    assert "does not exist" in error_line(capsys, "restore", str(data / "missing"), *target)
    assert "a directory" in error_line(capsys, "restore", str(data), *target)
    assert "empty" in error_line(capsys, "restore", str(nothing), *target)
    assert "not a database" in error_line(capsys, "restore", str(text), *target, code=1)
    assert "another program" in error_line(capsys, "restore", str(foreign), *target, code=1)
    assert "the store itself" in error_line(capsys, "restore", str(data / "store.db"), *target)
    assert change(data) == ["a", "b", "c"]


@pytest.mark.parametrize("arguments", [["backup"], ["restore", "--force"]], ids="-".join)
def test_a_full_disk_is_reported_in_one_line_and_leaves_no_files(data: Path, arguments: list[str]) -> None:
    backup = data.with_name("backup.db")
    if arguments[0] == "restore":
        main(["store", "backup", str(backup), "--data", str(data)])
    before = sorted(os.listdir(data)), sorted(os.listdir(data.parent))

    done = subprocess.run(
        [sys.executable, "-m", "launcher", "store", *arguments, str(backup), "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert (sorted(os.listdir(data)), sorted(os.listdir(data.parent))) == before
    assert change(data) == ["a", "b", "c"]


def test_a_store_in_use_is_not_replaced(data: Path, capsys: Captured) -> None:
    backup = data.with_name("backup.db")
    main(["store", "backup", str(backup), "--data", str(data)])
    capsys.readouterr()

    async def work() -> None:
        store = await SqliteStore.open(data / "store.db", clock=lambda: NOW, new_uid=uids())
        for arguments in (["restore", str(backup), "--force"], ["accept-loss"]):
            line = error_line(capsys, *arguments, "--data", str(data), code=1)
            assert f"in use by another launcher (process {os.getpid()})" in line
        await store.close()

    asyncio.run(work())
