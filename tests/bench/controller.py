"""The CPU time of the controller per task, from creation to completion, with every event of every pod."""

import asyncio
import resource
import subprocess
import sys
from contextlib import suppress
from itertools import count
from statistics import median
from time import process_time, time

from launcher.controller.framework_controller import FrameworkController
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType, Object, version_of
from launcher.store.selectors import Selector
from tests.bench import Row, row

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 3
#: Tasks per round and size, in one or more Frameworks.
TASKS = 10_000
STORED_FRAMEWORKS, TASKS_EACH = 10_000, 10

_POD = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox", "command": ["true"]}]}
}


def rows() -> list[Row]:
    """Cost per task by size, and memory for a large cluster."""
    seconds_by_size: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size in SIZES:
            seconds_by_size[size].append(
                asyncio.run(_cost(size, TASKS // size)) - asyncio.run(_baseline(TASKS))
            )
    cost = {size: median(seconds) / TASKS for size, seconds in seconds_by_size.items()}
    ratios = {size: cost[size] / cost[100] for size in SIZES}
    return [
        *(
            row(
                f"controller, creation to completion, per task at {size:,} tasks, compared with 100",
                ratios[size],
                "ratio",
                at_most=1.2 if size > 100 else None,
            )
            for size in SIZES
        ),
        row("controller, creation to completion, per task at 100", cost[100] * 1e6, "µs"),
        _memory_row(),
    ]


async def _cost(tasks: int, frameworks: int) -> float:
    """CPU seconds for these Frameworks, one after the other, including the store and the simulated nodes."""
    store = _store()
    async with asyncio.TaskGroup() as group:
        workers = [
            group.create_task(FrameworkController(store, clock=time, jitter=lambda: 0.5).run()),
            group.create_task(_nodes(store, {"phase": "Succeeded"})),
        ]
        start = process_time()
        for number in range(frameworks):
            await _wait_completed(store, await store.create(FRAMEWORKS, _framework(f"f{number}", tasks)))
        cpu_seconds = process_time() - start
        for worker in workers:
            worker.cancel()
    return cpu_seconds


async def _baseline(pods: int) -> float:
    """CPU seconds for the same pods without a controller: created in the same way, ended by the same nodes."""
    store = _store()
    async with asyncio.TaskGroup() as group:
        nodes = group.create_task(_nodes(store, {"phase": "Succeeded"}))
        start, created = process_time(), 0
        for number in range(pods):
            meta = {"name": f"p{number}", "namespace": "default", "labels": {"app": "bench"}}
            created = version_of(
                await store.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **_POD})
            )
            await asyncio.sleep(0)
        await _wait_for_phase(store, f"p{pods - 1}", "Succeeded", created)
        cpu_seconds = process_time() - start
        nodes.cancel()
    return cpu_seconds


def _store() -> MemoryStore:
    numbers = count()
    return MemoryStore(time, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")


def _framework(name: str, tasks: int) -> Object:
    return {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": FRAMEWORKS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "executionType": "Start",
            "taskRoles": [{"name": "w", "taskNumber": tasks, "task": {"pod": _POD}}],
        },
    }


async def _wait_completed(store: MemoryStore, created: Object) -> None:
    only = Selector.for_name(created["metadata"]["name"])
    async for change in store.watch(FRAMEWORKS, selector=only, since=version_of(created)):
        if (change.object.get("status") or {}).get("state") == "Completed":
            return


async def _wait_for_phase(store: MemoryStore, name: str, phase: str, since: int) -> None:
    async for change in store.watch(PODS, selector=Selector.for_name(name), since=since):
        if (change.object.get("status") or {}).get("phase") == phase:
            return


async def _nodes(store: MemoryStore, end: Object) -> None:
    """Binds every pod, sets it to Running, and then to *end*: three events each."""
    with suppress(asyncio.CancelledError):
        async for change in store.watch(PODS, since=0):
            if change.type is ChangeType.ADDED:
                pod = change.object
                pod = await store.update(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "n"}})
                for status in ({"phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.0.2.1"}, end):
                    pod = await store.update_status(PODS, {**pod, "status": status})


def _memory_row() -> Row:
    """Measured in its own process, so that nothing else is counted."""
    done = subprocess.run(
        [sys.executable, "-m", __name__], capture_output=True, text=True, check=True, timeout=600
    )
    objects = f"{STORED_FRAMEWORKS:,} Frameworks and {STORED_FRAMEWORKS * TASKS_EACH:,} running tasks"
    return row(f"memory: store and controller with {objects}", float(done.stdout) / 2**30, "GiB", at_most=1)


async def _fill() -> int:
    """Peak memory in bytes when all tasks run."""
    store = _store()
    async with asyncio.TaskGroup() as group:
        workers = [
            group.create_task(FrameworkController(store, clock=time, jitter=lambda: 0.5).run()),
            group.create_task(
                _nodes(store, {"phase": "Running", "podIP": "10.0.0.2", "hostIP": "192.0.2.1"})
            ),
        ]
        for number in range(STORED_FRAMEWORKS):
            created = await store.create(FRAMEWORKS, _framework(f"f{number}", TASKS_EACH))
            await _wait_for_phase(store, f"f{number}-w-{TASKS_EACH - 1}", "Running", version_of(created))
        await asyncio.sleep(1)  # for the last statuses to be saved
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        for worker in workers:
            worker.cancel()
    return used


if __name__ == "__main__":
    sys.stdout.write(str(asyncio.run(_fill())))
