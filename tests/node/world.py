"""A node in virtual time: a store, a runtime without processes, and the agent between them."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from launcher.core.errors import OutcomeUnknown, Unavailable
from launcher.node.agent.agent import NodeAgent
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import EVENTS, NODES, PODS, ChangeType, DeleteOptions, Object, ResourceKind
from tests.controller.simulation import virtual_time
from tests.node.fake_runtime import FakeRuntime

#: 2026-01-01T00:00:00Z: when the virtual clock stands at 0.
BEGIN = 1_767_225_600
NODE = "n1"
ADDRESS = "127.0.0.2"
LIMIT = 3600.0


class FakeLogs:
    """Logs as paths; what a test puts into ``ends`` is the end of a container's log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ends: dict[str, str] = {}
        self.removed: list[tuple[str, str]] = []

    def path(self, namespace: str, pod: str, uid: str, container: str, restart: int) -> Path:
        return self.root / namespace / pod / uid / container / f"{restart}.log"

    def begin(self, namespace: str, pod: str, uid: str) -> None:
        pass

    def tail(self, path: Path, lines: int, most: int) -> str:
        return self.ends.get(path.parent.name, "")[-most:]

    def remove(self, namespace: str, pod: str) -> None:
        self.removed.append((namespace, pod))


class Inline(ThreadPoolExecutor):
    """Does at once, on the caller's thread, what others would do in a thread: virtual time waits for no thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class WorldStore(MemoryStore):
    """Counts the writes of pods' statuses, and fails as often as a test wants it to."""

    def __init__(self, clock: Callable[[], float]) -> None:
        numbers = count(1)
        super().__init__(clock, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
        self.status_writes = 0
        #: Decides which of the agent's writes fail.
        self.chance: Random | None = None

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
        """A write that may fail, and may do so after it has been made."""
        if self.chance and self.chance.random() < 0.2:
            raise Unavailable("not now")
        yield
        if self.chance and self.chance.random() < 0.2:
            raise OutcomeUnknown("the answer was lost")


class World:
    """All that a test of the agent needs; the agent can be stopped and another one started."""

    def __init__(self, data: Path, backoff: RestartBackoff | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.clock: Callable[[], float] = lambda: BEGIN + loop.time()
        self.data, self._backoff = data, backoff
        self.store = WorldStore(self.clock)
        self.runtime = FakeRuntime(self.clock)
        self.logs = FakeLogs(data / "logs")
        self.nfs: dict[str, Path] = {}
        self.images: tuple[str, ...] = ()

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[NodeAgent]:
        """An agent at work; when it stops, all else goes on."""
        events = EventRecorder(self.store, self.clock, "kubelet")
        agent = NodeAgent(
            self.store,
            self.runtime,
            data=self.data,
            nodes=[NODE],
            logs=self.logs,
            nfs=self.nfs,
            clock=self.clock,
            events=events,
            images=self.images,
            path="/opt/bin",
            backoff=self._backoff,
        )
        tasks = [asyncio.create_task(agent.run()), asyncio.create_task(events.run())]
        try:
            yield agent
        finally:
            for task in tasks:
                failed = task.done()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                assert not failed, "the agent stopped by itself"

    async def create(self, pod: Object) -> Object:
        return await self.store.create(PODS, pod)

    async def pod(self, name: str) -> Object:
        return await self.store.get(PODS, "default", name)

    async def when(self, name: str, holds: Callable[[Object], bool]) -> Object:
        return await when(self.store, name, holds)

    async def gone(self, name: str) -> Object:
        """The pod as it last was, once it is gone."""
        page = await self.store.list(PODS)
        last = next(pod for pod in page.items if pod["metadata"]["name"] == name)
        async with asyncio.timeout(LIMIT), aclosing(self.store.watch(PODS, since=page.version)) as changes:
            async for change in changes:
                if change.object["metadata"]["name"] == name:
                    last = change.object
                    if change.happened is ChangeType.DELETED:
                        break
        return last

    async def events(self, reason: str) -> list[str]:
        """The messages of all events of that reason, once there is one."""
        for _ in range(600):
            page = await self.store.list(EVENTS)
            found: list[str] = [event["message"] for event in page.items if event["reason"] == reason]
            if found:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"nothing was told of {reason}")


async def eventually(holds: Callable[[], bool], every: float = 0.1) -> None:
    """Return once that holds."""
    for _ in range(int(60 / every)):
        if holds():
            return
        await asyncio.sleep(every)
    raise AssertionError("it never came to hold")


async def when(
    store: EmbeddedStore, name: str, holds: Callable[[Object], bool], within: float = LIMIT
) -> Object:
    """The pod, once that holds of it."""
    async with asyncio.timeout(within):
        page = await store.list(PODS)
        for pod in page.items:
            if pod["metadata"]["name"] == name and holds(pod):
                return pod
        async with aclosing(store.watch(PODS, since=page.version)) as changes:
            async for change in changes:
                pod = change.object
                gone = change.happened is ChangeType.DELETED
                if pod["metadata"]["name"] == name and not gone and holds(pod):
                    return pod
    raise AssertionError("the watch ended")


def in_virtual_time(scenario: Callable[[World], Coroutine[Any, Any, None]], data: Path, **how: Any) -> None:
    """Play the scenario in a world whose clock does not wait."""

    async def play() -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        world = World(data, **how)
        await world.store.create(NODES, a_node())
        await scenario(world)

    before = set(threading.enumerate())
    virtual_time.run(play())
    assert set(threading.enumerate()) <= before


def as_root(test: Any) -> Any:
    """The test, where we may mount and give files away; for others there is nothing to be seen."""
    return test if os.geteuid() == 0 else None


def a_node(name: str = NODE, address: str = ADDRESS) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "allocatable": {"cpu": "4", "memory": "8Gi"},
        },
    }


def a_pod(name: str, *containers: Object, node: str | None = NODE, **spec: Any) -> Object:
    """A bound pod that runs once, unless *spec* says otherwise."""
    metadata = spec.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            **({"nodeName": node} if node else {}),
            "containers": list(containers) or [a_container()],
            **spec,
        },
    }


def a_container(name: str = "main", *argv: str, **more: Any) -> Object:
    return {"name": name, "image": "busybox", "command": list(argv) or ["true"], **more}


def phase(wanted: str) -> Callable[[Object], bool]:
    return lambda pod: bool((pod.get("status") or {}).get("phase") == wanted)


def state(pod: Object, name: str = "main") -> Object:
    """The state of that container."""
    found: Object = container_status(pod, name)["state"]
    return found


def container_status(pod: Object, name: str = "main") -> Object:
    status = pod.get("status") or {}
    everywhere = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    found: Object = next(one for one in everywhere if one["name"] == name)
    return found


def waits(reason: str, name: str = "main") -> Callable[[Object], bool]:
    """Whether that container waits for that reason."""

    def holds(pod: Object) -> bool:
        told = (pod.get("status") or {}).get("containerStatuses")
        return bool(told) and (state(pod, name).get("waiting") or {}).get("reason") == reason

    return holds


def runs(name: str = "main", restarts: int = 0) -> Callable[[Object], bool]:
    """Whether that container runs after so many restarts."""

    def holds(pod: Object) -> bool:
        if not (pod.get("status") or {}).get("containerStatuses"):
            return False
        told = container_status(pod, name)
        return "running" in told["state"] and told["restartCount"] == restarts

    return holds
