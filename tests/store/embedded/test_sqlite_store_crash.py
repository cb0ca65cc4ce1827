"""A process that is killed while it writes loses no acknowledged write."""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import a_framework, uids, version_of
from tests.store.embedded.crash_writer import WRITERS, object_name, status_after

RUNS = 10


async def test_every_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    rng = random.Random(20)
    last_steps: dict[str, int] = {}
    highest = 0

    for run in range(RUNS):
        acknowledged = await run_and_kill(rng.randrange(1, 600), path, run)
        for writer, step, version in acknowledged:
            last_steps[object_name(run, writer)] = step
            highest = max(highest, version)
        for writer in range(WRITERS):
            last_steps.setdefault(object_name(run, writer), 0)

        async with open_store(path) as store:
            page = await store.list(FRAMEWORKS)
            found = {obj["metadata"]["name"]: obj for obj in page.items if "run" in obj["metadata"]["name"]}
            new = await store.create(FRAMEWORKS, a_framework(f"after-{run}"))
        assert page.version >= highest
        assert version_of(new) > page.version >= max(map(version_of, page.items), default=0)
        highest = version_of(new)
        for name, step in last_steps.items():
            # The step after the last acknowledged one was in progress: it is stored completely or not at all.
            assert seen(found.get(name)) in (status_after(step), status_after(step + 1)), name
        assert found.keys() <= last_steps.keys()
        # No process writes these objects any more: they must not change.
        last_steps |= {name: steps_of(found.get(name), step) for name, step in last_steps.items()}


def seen(obj: Object | None) -> Object | None:
    return None if obj is None else obj.get("status", {})


def steps_of(obj: Object | None, step: int) -> int:
    return step if seen(obj) == status_after(step) else step + 1


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, clock=time.time, new_uid=uids())
    yield store
    await store.close()


async def run_and_kill(lines: int, path: Path, run: int) -> list[tuple[int, int, int]]:
    """Runs a writer and kills it after *lines* lines. Returns all writes that it acknowledged."""
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.store.embedded.crash_writer", str(path), str(run)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert writer.stdout is not None
    output = b""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            for _ in range(lines):
                line = await writer.stdout.readline()
                assert line, "the writer exited by itself"
                output += line
    finally:
        writer.kill()
        output += await writer.stdout.read()
        await writer.wait()
    lines_of_output = output[: output.rfind(b"\n")].splitlines()
    return [
        (int(writer), int(step), int(version)) for writer, step, version in map(bytes.split, lines_of_output)
    ]
