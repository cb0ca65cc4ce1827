"""A store on a full disk: nothing new is stored, and everything can be deleted."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.core.errors import Unavailable
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, MergePatch
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import NOW, a_framework, names, uids, with_

MIB = 1024 * 1024


async def open_store(directory: Path) -> SqliteStore:
    return await SqliteStore.open(directory / "store.db", clock=lambda: NOW, new_uid=uids())


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The reported free bytes and mount flags of a disk of 1 GiB."""
    reported = SimpleNamespace(bytes=512 * MIB, flags=0)
    monkeypatch.setattr(
        os,
        "statvfs",
        lambda _: SimpleNamespace(
            f_bavail=reported.bytes, f_blocks=1024 * MIB, f_frsize=1, f_flag=reported.flags
        ),
    )
    return reported


async def test_creates_and_updates_are_rejected_on_a_disk_that_is_almost_full(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    store = await open_store(tmp_path)
    await store.check_disk()
    with_finalizer = await store.create(FRAMEWORKS, a_framework("held", finalizers=["x/y"]))
    small = await store.create(FRAMEWORKS, a_framework("small"))
    await store.create(FRAMEWORKS, a_framework("other"))

    disk.bytes = 15 * MIB

    with pytest.raises(Unavailable, match="almost full"):
        await store.create(FRAMEWORKS, a_framework("new"))
    with pytest.raises(Unavailable, match="almost full"):
        await store.update(FRAMEWORKS, with_(small, spec={"description": "x" * 5000}))
    with pytest.raises(Unavailable, match="almost full"):
        await store.check_disk()
    await store.update_status(FRAMEWORKS, with_(small, status={"state": "x" * 5000}))
    await store.delete(FRAMEWORKS, "default", "other")
    await store.delete(FRAMEWORKS, "default", "held")
    await store.patch(FRAMEWORKS, "default", "held", MergePatch({"metadata": {"finalizers": None}}))
    assert names((await store.list(FRAMEWORKS)).items) == ["small"]

    disk.bytes = 512 * MIB
    await store.check_disk()
    await store.create(FRAMEWORKS, a_framework("new"))
    await store.close()
    assert with_finalizer["metadata"]["name"] == "held"


async def test_a_file_system_that_becomes_read_only_is_not_ready(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    store = await open_store(tmp_path)

    disk.flags = os.ST_RDONLY

    with pytest.raises(Unavailable, match="read-only"):
        await store.check_disk()
    await store.close()


async def test_without_a_reserve_file_writes_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_supported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", not_supported)
    store = await open_store(tmp_path)

    await store.check_disk()
    await store.create(FRAMEWORKS, a_framework())
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mount_point = tmp_path / "small"
    mount_point.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount_point], check=True, timeout=TIMEOUT_SECONDS
    )
    yield mount_point
    subprocess.run(["umount", "--lazy", mount_point], check=True, timeout=TIMEOUT_SECONDS)


def fill(directory: Path) -> None:
    """Leaves no free byte on the disk."""
    with (directory / "fill").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


@pytest.mark.parametrize("restarted", [False, True])
async def test_everything_can_be_deleted_on_a_full_disk(small_disk: Path, restarted: bool) -> None:
    store = await open_store(small_disk)
    for n in range(100):
        created = await store.create(FRAMEWORKS, a_framework(f"f-{n}", annotations={"a": "x" * 10_000}))
        await store.update_status(FRAMEWORKS, with_(created, status={"a": "x" * 1000}))
    if restarted:
        await store.close()
    fill(small_disk)
    if restarted:
        store = await open_store(small_disk)

    with pytest.raises(Unavailable, match="full"):
        await store.create(FRAMEWORKS, a_framework("new"))
    for n in range(100):
        fill(small_disk)  # another program uses every byte that becomes free
        await store.delete(FRAMEWORKS, "default", f"f-{n}")

    assert (await store.list(FRAMEWORKS)).items == []
    (small_disk / "fill").unlink()
    await store.create(FRAMEWORKS, a_framework("new"))
    await store.close()
    store = await open_store(small_disk)
    assert names((await store.list(FRAMEWORKS)).items) == ["new"]
    await store.close()
