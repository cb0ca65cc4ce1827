"""A node in its own process, which tests kill: ``python -m tests.node.killable DATA``."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import time
from uuid import uuid4

from launcher.node.agent.agent import NodeAgent
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.device_manager import DeviceManager
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.image_manager import ImageManager
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.container_runtime import ImageService, RuntimeService
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import VolumeManager
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import SharedInformers


@asynccontextmanager
async def open_store(data: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(data / "launcher.db", clock=time, new_uid=lambda: str(uuid4()))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def an_agent(
    data: Path,
    store: SqliteStore,
    runtime: RuntimeService,
    nfs: Mapping[str, Path] | None = None,
    backoff: RestartBackoff | None = None,
    images: ImageService | None = None,
    credentials: Sequence[Path] = (),
) -> AsyncIterator[None]:
    """A running agent."""
    events = EventRecorder(store, time, "kubelet")
    informers = SharedInformers(store)
    dependencies = AgentDependencies(
        store,
        runtime,
        VolumeManager(data, Nfs(data / "nfs", nfs or {})),
        TerminationMessages(data / "ends"),
        HostsFileManager(store, informers, data / "hosts"),
        ContainerLogs(data / "logs"),
        DeviceManager(data / "devices", {}),
        events,
        time,
        image_manager=ImageManager(
            images, store, time, lambda pod, event: events.record(pod, [event]), credentials
        )
        if images is not None
        else None,
        backoff=backoff or RestartBackoff(),
        path=os.environ["PATH"],
    )
    agent = NodeAgent(dependencies, informers, ["n1"])
    tasks = [asyncio.create_task(part.run()) for part in (agent, events, informers)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def running_node(
    data: Path, store: SqliteStore, *, stop_shim: bool = False
) -> AsyncIterator[ProcessRuntime]:
    """A runtime, and a running agent that uses it."""
    async with AsyncExitStack() as closing:
        runtime = await ProcessRuntime.open(data, images={}, clock=time)
        closing.push_async_callback(runtime.close, stop_shim=stop_shim)
        await closing.enter_async_context(an_agent(data, store, runtime))
        yield runtime


async def main(data: Path) -> None:
    async with open_store(data) as store, running_node(data, store):
        # The test waits for this line.
        sys.stdout.write("running\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
