"""What every log archive does: in a directory, on an S3 server, and in memory for tests."""

import asyncio

import pytest

from launcher.core.errors import NotFound
from launcher.log_archive.interface import ArchivedPod, LogArchive, LogKey

POD = ArchivedPod("default", "mnist-worker-0", "8f4c2a9e-0000-4000-8000-000000000001")
OTHER = ArchivedPod("default", "mnist-worker-0", "8f4c2a9e-0000-4000-8000-000000000002")
KEY = LogKey(POD, "main", 0)


async def test_a_stored_log_is_read(archive: LogArchive) -> None:
    text = b"2026-01-31T12:00:00.000000001Z hello\n" * 1000

    assert await archive.create(KEY, text)

    assert await archive.read(KEY) == text
    assert await archive.exists(KEY)


async def test_an_empty_log_is_stored(archive: LogArchive) -> None:
    assert await archive.create(KEY, b"")

    assert await archive.exists(KEY)
    assert await archive.read(KEY) == b""


async def test_a_log_is_stored_once(archive: LogArchive) -> None:
    first, second = await archive.create(KEY, b"first"), await archive.create(KEY, b"second")

    assert (first, second) == (True, False)
    assert await archive.read(KEY) == b"first"


async def test_of_concurrent_writes_one_is_stored(archive: LogArchive) -> None:
    texts = [str(number).encode() * 1000 for number in range(8)]

    stored = await asyncio.gather(*(archive.create(KEY, text) for text in texts))

    assert sorted(stored) == [False] * 7 + [True]
    assert await archive.read(KEY) == texts[stored.index(True)]


async def test_a_missing_log_is_reported(archive: LogArchive) -> None:
    assert not await archive.exists(KEY)
    assert await archive.runs(POD) == {}
    with pytest.raises(NotFound):
        await archive.read(KEY)


async def test_the_runs_of_one_pod_are_listed_by_number(archive: LogArchive) -> None:
    for container, restart in (("main", 10), ("main", 9), ("init", 0)):
        await archive.create(LogKey(POD, container, restart), b"")
    await archive.create(LogKey(OTHER, "main", 0), b"")

    assert await archive.runs(POD) == {"init": [0], "main": [9, 10]}
    assert await archive.runs(OTHER) == {"main": [0]}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(ArchivedPod("default", "mnist-worker-0", ".."), id="a uid that leaves the directory"),
        pytest.param(ArchivedPod("default", "..", POD.uid), id="a name that leaves the directory"),
        pytest.param(ArchivedPod("default", "mnist-worker-0", ""), id="an empty uid"),
        pytest.param(ArchivedPod("default", "a/b", POD.uid), id="a name with a slash"),
        pytest.param(ArchivedPod("default", "mnist-worker-0", f"{POD.uid}\n"), id="a uid with a line end"),
    ],
)
async def test_names_that_no_pod_has_are_not_found(archive: LogArchive, pod: ArchivedPod) -> None:
    await archive.create(KEY, b"secret")

    with pytest.raises(NotFound):
        await archive.read(LogKey(pod, "main", 0))
    assert not await archive.exists(LogKey(pod, "main", 0))
