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
from tests.store.builders import NOW, PATIENCE, a_framework, names, uids, with_

MIB = 1024 * 1024


async def opened(directory: Path) -> SqliteStore:
    return await SqliteStore.open(directory / "store.db", clock=lambda: NOW, new_uid=uids())


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The free bytes that the disk, of 1 GiB, is said to have, and its mount flags."""
    said = SimpleNamespace(bytes=512 * MIB, flags=0)
    monkeypatch.setattr(
        os,
        "statvfs",
        lambda _: SimpleNamespace(f_bavail=said.bytes, f_blocks=1024 * MIB, f_frsize=1, f_flag=said.flags),
    )
    return said


async def test_nothing_new_is_stored_on_a_disk_that_is_almost_full(
    tmp_path: Path, free: SimpleNamespace
) -> None:
    store = await opened(tmp_path)
    await store.check_disk()
    held = await store.create(FRAMEWORKS, a_framework("held", finalizers=["x/y"]))
    small = await store.create(FRAMEWORKS, a_framework("small"))
    await store.create(FRAMEWORKS, a_framework("other"))

    free.bytes = 15 * MIB

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

    free.bytes = 512 * MIB
    await store.check_disk()
    await store.create(FRAMEWORKS, a_framework("new"))
    await store.close()
    assert held["metadata"]["name"] == "held"


async def test_a_file_system_that_becomes_read_only_is_not_ready(
    tmp_path: Path, free: SimpleNamespace
) -> None:
    store = await opened(tmp_path)

    free.flags = os.ST_RDONLY

    with pytest.raises(Unavailable, match="read-only"):
        await store.check_disk()
    await store.close()


async def test_a_reserve_that_cannot_be_allocated_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_supported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", not_supported)
    store = await opened(tmp_path)

    await store.check_disk()
    await store.create(FRAMEWORKS, a_framework())
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place], check=True, timeout=PATIENCE)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True, timeout=PATIENCE)


def fill(directory: Path) -> None:
    """Leaves no free byte on the disk."""
    with (directory / "fill").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


@pytest.mark.parametrize("restarted", [False, True])
async def test_everything_can_be_deleted_on_a_full_disk(small_disk: Path, restarted: bool) -> None:
    store = await opened(small_disk)
    for n in range(100):
        made = await store.create(FRAMEWORKS, a_framework(f"f-{n}", annotations={"a": "x" * 10_000}))
        await store.update_status(FRAMEWORKS, with_(made, status={"a": "x" * 1000}))
    if restarted:
        await store.close()
    fill(small_disk)
    if restarted:
        store = await opened(small_disk)

    with pytest.raises(Unavailable, match="full"):
        await store.create(FRAMEWORKS, a_framework("new"))
    for n in range(100):
        fill(small_disk)  # something else on the disk takes every byte that becomes free
        await store.delete(FRAMEWORKS, "default", f"f-{n}")

    assert (await store.list(FRAMEWORKS)).items == []
    (small_disk / "fill").unlink()
    await store.create(FRAMEWORKS, a_framework("new"))
    await store.close()
    store = await opened(small_disk)
    assert names((await store.list(FRAMEWORKS)).items) == ["new"]
    await store.close()
