"""A node agent in virtual time, with a store in memory and a fake runtime."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from launcher.core.errors import OutcomeUnknown, Unavailable
from launcher.node.agent.agent import NodeAgent
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.agent.device_manager import DeviceManager
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.network.pod_network import PodNetwork, SharedPodNetwork
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import VolumeManager
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import SharedInformers
from launcher.store.interface import EVENTS, NODES, PODS, ChangeType, DeleteOptions, Object, ResourceKind
from tests import builders
from tests.controller.simulation import virtual_time
from tests.node.fake_runtime import FakeRuntime

#: 2026-01-01T00:00:00Z: the wall-clock time at which the virtual clock is 0.
BEGIN = 1_767_225_600
NODE = "n1"
ADDRESS = "127.0.0.2"
LIMIT = 3600.0


class FakeContainerLogs(ContainerLogs):
    """Logs without files: ``tails`` holds the end of a container's log, by container."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root
        self.tails: dict[str, str] = {}
        self.removed: list[tuple[str, str]] = []

    def create_directory(self, namespace: str, pod: str, uid: str) -> None:
        pass

    def tail(self, path: Path, lines: int, max_bytes: int) -> str:
        return self.tails.get(path.parent.name, "")[-max_bytes:]

    def remove(self, namespace: str, pod: str) -> None:
        self.removed.append((namespace, pod))


class InlineExecutor(ThreadPoolExecutor):
    """Runs functions immediately in the caller's thread: virtual time does not wait for threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class FaultyMemoryStore(MemoryStore):
    """Counts the writes of pod statuses; with ``random``, writes fail randomly."""

    def __init__(self, clock: Callable[[], float]) -> None:
        numbers = count(1)
        super().__init__(clock, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
        self.status_writes = 0
        #: Decides which writes fail; None for none.
        self.random: Random | None = None

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self.status_writes += kind == PODS
        with self._faults():
            return await super().update_status(kind, obj, dry_run=dry_run)

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        with self._faults():
            return await super().delete(kind, namespace, name, how, dry_run=dry_run)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Fails before or after the write in the block."""
        if self.random and self.random.random() < 0.2:
            raise Unavailable("not now")
        yield
        if self.random and self.random.random() < 0.2:
            raise OutcomeUnknown("the response was lost")


class NodeAgentHarness:
    """A node agent with its dependencies; the agent can be stopped and another one started."""

    def __init__(self, data: Path, backoff: RestartBackoff | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.clock: Callable[[], float] = lambda: BEGIN + loop.time()
        self.data, self._backoff = data, backoff
        self.store = FaultyMemoryStore(self.clock)
        self.runtime = FakeRuntime(self.clock)
        self.logs = FakeContainerLogs(data / "logs")
        self.nfs: dict[str, Path] = {}
        self.images: dict[str, Sequence[str]] = {}
        self.network: PodNetwork = SharedPodNetwork()
        #: The GPUs of the node.
        self.gpus: Sequence[str] = ()

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[NodeAgent]:
        """A running agent; the store and the runtime continue when it stops."""
        events = EventRecorder(self.store, self.clock, "kubelet")
        informers = SharedInformers(self.store)
        agent = NodeAgent(self.dependencies(events, informers), informers, [NODE])
        tasks = [asyncio.create_task(part.run()) for part in (agent, events, informers)]
        try:
            yield agent
        finally:
            for task in tasks:
                failed = task.done()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                assert not failed, "the agent stopped by itself"

    def dependencies(self, events: EventRecorder, informers: SharedInformers) -> AgentDependencies:
        return AgentDependencies(
            self.store,
            self.runtime,
            VolumeManager(self.data, Nfs(self.data / "nfs", self.nfs)),
            TerminationMessages(self.data / "ends"),
            HostsFileManager(self.store, informers, self.data / "hosts"),
            self.logs,
            DeviceManager(self.data / "devices", {NODE: self.gpus}),
            events,
            self.clock,
            backoff=self._backoff or RestartBackoff(),
            path="/opt/bin",
            images=self.images,
            network=self.network,
        )

    async def create(self, pod: Object) -> Object:
        return await self.store.create(PODS, pod)

    async def pod(self, name: str) -> Object:
        return await self.store.get(PODS, "default", name)

    async def when(self, name: str, holds: Callable[[Object], bool]) -> Object:
        return await when(self.store, name, holds)

    async def wait_until_deleted(self, name: str) -> Object:
        """Waits until the pod is deleted, and returns its last version."""
        page = await self.store.list(PODS)
        last = next(pod for pod in page.items if pod["metadata"]["name"] == name)
        async with asyncio.timeout(LIMIT), aclosing(self.store.watch(PODS, since=page.version)) as changes:
            async for change in changes:
                if change.object["metadata"]["name"] == name:
                    last = change.object
                    if change.type is ChangeType.DELETED:
                        break
        return last

    async def events(self, reason: str) -> list[str]:
        """Waits for an event with that reason, and returns the messages of all."""
        for _ in range(600):
            page = await self.store.list(EVENTS)
            found: list[str] = [event["message"] for event in page.items if event["reason"] == reason]
            if found:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"no event with reason {reason}")


async def when(
    store: EmbeddedStore, name: str, holds: Callable[[Object], bool], within: float = LIMIT
) -> Object:
    """Waits until *holds* is true for the pod, and returns it."""
    async with asyncio.timeout(within):
        page = await store.list(PODS)
        for pod in page.items:
            if pod["metadata"]["name"] == name and holds(pod):
                return pod
        async with aclosing(store.watch(PODS, since=page.version)) as changes:
            async for change in changes:
                pod = change.object
                deleted = change.type is ChangeType.DELETED
                if pod["metadata"]["name"] == name and not deleted and holds(pod):
                    return pod
    raise AssertionError("the watch ended")


def in_virtual_time(
    scenario: Callable[[NodeAgentHarness], Coroutine[Any, Any, None]], data: Path, **options: Any
) -> None:
    """Runs the scenario with a harness whose clock does not wait."""

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        harness = NodeAgentHarness(data, **options)
        await harness.store.create(NODES, a_node())
        await scenario(harness)

    before = set(threading.enumerate())
    virtual_time.run(run())
    assert set(threading.enumerate()) <= before


def as_root(test: Any) -> Any:
    """The test if this is root, which may mount and change owners; else nothing."""
    return test if os.geteuid() == 0 else None


def a_node(name: str = NODE, address: str = ADDRESS) -> Object:
    return builders.a_node(name, address=address)


def a_pod(name: str, *containers: Object, node: str | None = NODE, **spec: Any) -> Object:
    """A bound pod that runs once by default."""
    binding = {"nodeName": node} if node else {}
    fields = {"terminationGracePeriodSeconds": 5, **binding, **spec}
    return builders.a_pod(name, *(containers or (a_container(),)), **fields)


def a_container(name: str = "main", *argv: str, **more: Any) -> Object:
    return {"name": name, "image": "busybox", "command": list(argv) or ["true"], **more}


def phase(expected: str) -> Callable[[Object], bool]:
    return lambda pod: bool((pod.get("status") or {}).get("phase") == expected)


def state(pod: Object, name: str = "main") -> Object:
    """The state of the container."""
    found: Object = container_status(pod, name)["state"]
    return found


def container_status(pod: Object, name: str = "main") -> Object:
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    found: Object = next(one for one in statuses if one["name"] == name)
    return found


def waits(reason: str, name: str = "main") -> Callable[[Object], bool]:
    """Whether the container waits with that reason."""

    def holds(pod: Object) -> bool:
        statuses = (pod.get("status") or {}).get("containerStatuses")
        return bool(statuses) and (state(pod, name).get("waiting") or {}).get("reason") == reason

    return holds


def runs(name: str = "main", restarts: int = 0) -> Callable[[Object], bool]:
    """Whether the container is running after that many restarts."""

    def holds(pod: Object) -> bool:
        if not (pod.get("status") or {}).get("containerStatuses"):
            return False
        statuses = container_status(pod, name)
        return "running" in statuses["state"] and statuses["restartCount"] == restarts

    return holds
