"""A node as a process of its own, to be killed: ``python -m tests.node.killable DATA``."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import time
from uuid import uuid4

from launcher.node.agent.agent import NodeAgent
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.event_recorder import EventRecorder


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(data / "launcher.db", clock=time, new_uid=lambda: str(uuid4()))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def an_agent(
    data: Path,
    store: SqliteStore,
    runtime: ProcessRuntime,
    nfs: Mapping[str, Path] | None = None,
    backoff: RestartBackoff | None = None,
) -> AsyncIterator[None]:
    """An agent that runs what the store says."""
    events = EventRecorder(store, time, "kubelet")
    agent = NodeAgent(
        store,
        runtime,
        data=data,
        nodes=["n1"],
        logs=ContainerLogs(data / "logs"),
        nfs=nfs or {},
        clock=time,
        events=events,
        path=os.environ["PATH"],
        backoff=backoff,
    )
    tasks = [asyncio.create_task(agent.run()), asyncio.create_task(events.run())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def at_work(
    data: Path, store: SqliteStore, *, stop_keeper: bool = False
) -> AsyncIterator[ProcessRuntime]:
    """A runtime, and an agent that uses it."""
    async with AsyncExitStack() as closing:
        runtime = await ProcessRuntime.open(data, images={}, clock=time)
        closing.push_async_callback(runtime.close, stop_keeper=stop_keeper)
        await closing.enter_async_context(an_agent(data, store, runtime))
        yield runtime


async def main(data: Path) -> None:
    async with opened(data) as store, at_work(data, store):
        # Somebody waits for this word.
        sys.stdout.write("at work\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
