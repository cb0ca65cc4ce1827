"""A process that is killed while it writes loses nothing that it has acknowledged."""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.store.builders import PATIENCE, a_framework, uids, version_of
from tests.store.crash_writer import WRITERS, object_name, status_after

RUNS = 10


async def test_everything_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(20)
    last_steps: dict[str, int] = {}
    highest = 0

    for run in range(RUNS):
        acknowledged = await killed_after(chance.randrange(1, 600), path, run)
        for writer, step, version in acknowledged:
            last_steps[object_name(run, writer)] = step
            highest = max(highest, version)
        for writer in range(WRITERS):
            last_steps.setdefault(object_name(run, writer), 0)

        async with opened(path) as store:
            page = await store.list(FRAMEWORKS)
            found = {obj["metadata"]["name"]: obj for obj in page.items if "run" in obj["metadata"]["name"]}
            new = await store.create(FRAMEWORKS, a_framework(f"after-{run}"))
        assert page.version >= highest
        assert version_of(new) > page.version >= max(map(version_of, page.items), default=0)
        highest = version_of(new)
        for name, step in last_steps.items():
            # The step after the last acknowledged one was under way: it happened whole, or not at all.
            assert seen(found.get(name)) in (status_after(step), status_after(step + 1)), name
        assert found.keys() <= last_steps.keys()
        # From now on nobody writes those of this run: they must stay as they were found.
        last_steps |= {name: steps_of(found.get(name), step) for name, step in last_steps.items()}


def seen(obj: Object | None) -> Object | None:
    return None if obj is None else obj.get("status", {})


def steps_of(obj: Object | None, step: int) -> int:
    return step if seen(obj) == status_after(step) else step + 1


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, clock=time.time, new_uid=uids())
    yield store
    await store.close()


async def killed_after(lines: int, path: Path, run: int) -> list[tuple[int, int, int]]:
    """What a writer had acknowledged when it was killed, soon after so many lines."""
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.store.crash_writer", str(path), str(run)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert writer.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(PATIENCE):
            for _ in range(lines):
                line = await writer.stdout.readline()
                assert line, "the writer ended by itself"
                said += line
    finally:
        writer.kill()
        said += await writer.stdout.read()
        await writer.wait()
    whole = said[: said.rfind(b"\n")].splitlines()
    return [(int(writer), int(step), int(version)) for writer, step, version in map(bytes.split, whole)]
