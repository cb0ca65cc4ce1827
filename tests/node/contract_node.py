"""A node agent with a real container runtime: processes, Docker or Podman."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.core.pods.log_options import PodLogOptions
from launcher.node.container_runtime import ImageService, RuntimeService
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import EVENTS, NODES, PODS, DeleteOptions, Object
from tests.engine.archives import BUSYBOX
from tests.eventually import eventually
from tests.node.contract import ContractRuntimes
from tests.node.harness import a_node, a_pod, when
from tests.node.killable import an_agent, open_store

LIMIT = 60.0


class ContractNode:
    """A node agent with a real runtime; agent and runtime can be stopped, and others started."""

    def __init__(self, runtimes: ContractRuntimes, store: SqliteStore) -> None:
        self.runtimes, self.store = runtimes, store
        self.logs = ContainerLogs(runtimes.data / "logs")
        self.runtime: RuntimeService | None = None
        self.images: ImageService | None = None
        self.credentials: list[Path] = []
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Starts a runtime and an agent."""
        opened = self.runtimes.open_with_images(stop=False)
        runtime, self.images = await self._stack.enter_async_context(opened)
        self.runtime = runtime
        backoff = RestartBackoff(first_seconds=0.1)
        data = self.runtimes.data
        agent = an_agent(data, self.store, runtime, {}, backoff, self.images, self.credentials)
        await self._stack.enter_async_context(agent)

    async def stop(self) -> None:
        """Ends agent and runtime, as if the launcher had ended."""
        await self._stack.aclose()

    async def run(self, *containers: Object, name: str = "p", **spec: Any) -> Object:
        """Creates the pod."""
        return await self.store.create(PODS, a_pod(name, *containers, **spec))

    async def when(self, holds: Callable[[Object], bool], name: str = "p") -> Object:
        return await when(self.store, name, holds, LIMIT)

    async def delete(self, name: str = "p", grace: int = 5) -> None:
        await self.store.delete(PODS, "default", name, DeleteOptions(grace=grace))

        async def is_deleted() -> bool:
            return not any(pod["metadata"]["name"] == name for pod in (await self.store.list(PODS)).items)

        await eventually(is_deleted, f"{name} is deleted")

    async def log(self, pod: Object, container: str = "main") -> str:
        meta, options = pod["metadata"], PodLogOptions(follow=True)
        parts = self.logs.read("default", meta["name"], meta["uid"], container, options)
        return b"".join([part async for part in parts]).decode()

    async def events(self, reason: str) -> list[str]:
        """The messages of all events with that reason."""
        page = await self.store.list(EVENTS)
        return [event["message"] for event in page.items if event["reason"] == reason]

    async def when_events(self, reason: str, number: int = 1) -> list[str]:
        """The messages of all events with that reason, once there are as many: they are recorded after the status."""

        async def recorded() -> list[str] | None:
            found = await self.events(reason)
            return found if len(found) >= number else None

        return await eventually(recorded, f"{number} events {reason} are recorded")

    async def clean_up(self) -> None:
        await self.stop()
        async with self.runtimes.open():
            pass


@asynccontextmanager
async def contract_node(request: pytest.FixtureRequest, data: Path) -> AsyncIterator[ContractNode]:
    """A node with the runtime that is the parameter of *request*."""
    runtimes = ContractRuntimes(request, data)
    async with open_store(runtimes.data) as store:
        await store.create(NODES, a_node(address="127.0.0.1"))
        node = ContractNode(runtimes, store)
        await node.start()
        try:
            yield node
        finally:
            await node.clean_up()


def script(text: str, name: str = "main", **more: Any) -> Object:
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", text], **more}
