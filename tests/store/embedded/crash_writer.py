"""Writes until it is killed, and prints every acknowledged write."""

import asyncio
import sys
import time
import uuid
from pathlib import Path

from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.store.builders import a_framework, with_

WRITERS = 8
#: Long enough for several pages of SQLite, so that a torn write is possible.
PAYLOAD = "x" * 6000


def object_name(run: int, writer: int) -> str:
    return f"run-{run}-writer-{writer}"


def status_after(step: int) -> Object | None:
    """The status of the writer's object after *step* steps, or None if there is no object."""
    match step % 4:
        case 0:
            return None
        case 1:
            return {}
        case _:
            return {"step": step, "payload": PAYLOAD + str(step)}


async def write(store: SqliteStore, run: int, writer: int) -> None:
    name = object_name(run, writer)
    obj: Object = {}
    step = 0
    while True:
        step += 1
        status = status_after(step)
        if status is None:
            await store.delete(FRAMEWORKS, "default", name)
        elif not status:
            obj = await store.create(FRAMEWORKS, a_framework(name))
        else:
            obj = await store.update_status(FRAMEWORKS, with_(obj, status=status))
        sys.stdout.write(f"{writer} {step} {obj['metadata']['resourceVersion']}\n")
        sys.stdout.flush()


async def main(path: Path, run: int) -> None:
    store = await SqliteStore.open(path, clock=time.time, new_uid=lambda: str(uuid.uuid4()))
    async with asyncio.TaskGroup() as tasks:
        for writer in range(WRITERS):
            tasks.create_task(write(store, run, writer))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
