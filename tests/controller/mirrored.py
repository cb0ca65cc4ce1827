"""Jobs, their mirror, the controller and a garbage collector on one store; the test itself is the node."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import TypeVar
from uuid import uuid4

from launcher.controller.framework_controller import ControllerOptions, FrameworkController
from launcher.core.errors import FieldError, NotFound
from launcher.job_kinds.job_controller import JobController
from launcher.job_kinds.job_kind import FOREIGN
from launcher.node.garbage_collector.garbage_collector import GarbageCollector
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, DeleteOptions, MergePatch, Object, ResourceKind
from tests.job_kinds.samples import counts
from tests.job_kinds.samples import states as states_of

T = TypeVar("T")

#: Seconds that anything may take.
PATIENCE = 60.0
(TFJOB,) = [foreign for foreign in FOREIGN if foreign.kind.kind == "TFJob"]
TFJOBS = TFJOB.kind


class Writes(MemoryStore):
    """Keeps a record of who wrote what, and lets a test have a say."""

    def __init__(self) -> None:
        super().__init__(time.time, lambda: str(uuid4()))
        self.writes: list[tuple[str, str]] = []
        self.fails: Callable[[str, ResourceKind], Exception | None] = lambda verb, kind: None

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._note("create", kind)
        return await super().create(kind, obj, dry_run=dry_run)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._note("update", kind)
        return await super().update(kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._note("update_status", kind)
        return await super().update_status(kind, obj, dry_run=dry_run)

    def _note(self, verb: str, kind: ResourceKind) -> None:
        self.writes.append((verb, kind.kind))
        if (error := self.fails(verb, kind)) is not None:
            raise error


class Place:
    """What a user of jobs sees, and what nodes do to pods."""

    def __init__(self, store: Writes) -> None:
        self.store = store

    async def submit(self, job: Object) -> Object:
        return await self.store.create(TFJOBS, _placed(job))

    async def job(self, name: str = "dist") -> Object:
        return await self._get(TFJOBS, name)

    async def framework(self, name: str = "dist") -> Object:
        return await self._get(FRAMEWORKS, name)

    async def pods(self) -> dict[str, str]:
        """The phase of each pod."""
        page = await self.store.list(PODS, "default")
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in page.items}

    async def events(self) -> list[str]:
        """The reasons of what was told of jobs."""
        page = await self.store.list(EVENTS, "default")
        told = sorted(page.items, key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [one["reason"] for one in told if one["involvedObject"]["kind"] == "TFJob"]

    async def change(self, changes: Object, name: str = "dist") -> None:
        """Change the spec of the job."""
        await self.store.patch(TFJOBS, "default", name, MergePatch({"spec": changes}))

    async def delete(self, kind: ResourceKind, name: str, how: DeleteOptions | None = None) -> None:
        await self.store.delete(kind, "default", name, how or DeleteOptions())

    # Nodes.

    async def run(self, *names: str) -> None:
        """Let these pods run, as soon as they are there."""
        for name in names:
            await self.until(partial(self._has, name), f"{name} is there")
            await self._report(name, {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.1"})

    async def end(self, name: str, code: int | None = 0, reason: str = "") -> None:
        """Let the pod end, its container with that exit code, or without any."""
        terminated = {"exitCode": code, "finishedAt": "2026-01-31T12:00:00Z"}
        container = {"name": "tensorflow", "state": {"terminated": terminated}}
        await self._report(
            name,
            {
                "phase": "Failed" if code != 0 else "Succeeded",
                **({"reason": reason} if reason else {}),
                **({} if code is None else {"containerStatuses": [container]}),
            },
        )

    async def until(self, look: Callable[[], Awaitable[T | None]], what: str) -> T:
        """What *look* finds, as soon as it finds something."""
        ends = time.monotonic() + PATIENCE
        while not (found := await look()):
            assert time.monotonic() < ends, f"{what}: not within {PATIENCE:g} s; {await self.job()}"
            await asyncio.sleep(0.01)
        return found

    async def told(self, *states: str, name: str = "dist") -> Object:
        """The job, as soon as these are its conditions, in this order."""

        async def look() -> Object | None:
            job = await self.job(name)
            return job if states_of(job) == list(states) else None

        return await self.until(look, f"{name} is {', '.join(states)}")

    async def failed(self) -> Object:
        """The job, as soon as it has failed."""

        async def look() -> Object | None:
            job = await self.job()
            return job if "Failed" in states_of(job) else None

        return await self.until(look, "it has failed")

    async def counted(self, **types: Object) -> Object:
        """The job, as soon as its replicas are counted so."""

        async def look() -> Object | None:
            job = await self.job()
            return job if "replicaStatuses" in (job.get("status") or {}) and counts(job) == types else None

        return await self.until(look, f"there are {types}")

    async def happened(self, reason: str) -> list[str]:
        """What was told of jobs, in its order, as soon as that was."""

        async def look() -> list[str] | None:
            told = await self.events()
            return told if reason in told else None

        return await self.until(look, f"{reason} is told")

    async def left(self, *names: str) -> None:
        """Return when just these pods are there."""

        async def look() -> bool:
            return sorted(await self.pods()) == sorted(names)

        await self.until(look, f"only {names} are left")

    async def gone(self) -> None:
        """Return when the job is no longer there."""

        async def look() -> bool:
            return not await self.job()

        await self.until(look, "the job is gone")

    async def quiet(self) -> None:
        """Return when nobody has written anything for a while."""
        before = -1
        while before != self.store.version:
            before = self.store.version
            await asyncio.sleep(0.3)

    async def _has(self, pod: str) -> bool:
        return bool(await self._get(PODS, pod))

    async def _report(self, pod: str, status: Object) -> None:
        await self.store.patch(PODS, "default", pod, MergePatch({"status": status}), subresource="status")

    async def _get(self, kind: ResourceKind, name: str) -> Object:
        try:
            return await self.store.get(kind, "default", name)
        except NotFound:
            return {}


def _placed(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}


@asynccontextmanager
async def mirrored(
    store: Writes | None = None,
    forbidden: Callable[[Object], tuple[FieldError, ...]] = lambda _: (),
    *,
    controlled: bool = True,
) -> AsyncIterator[Place]:
    """A place where everybody is at work, but for the controller if Frameworks are to stay as they are."""
    store = store or Writes()
    chance = Random(1).random
    runs = [
        JobController(store, TFJOB, clock=time.time, chance=chance, forbidden=forbidden).run(),
        GarbageCollector(store, clock=time.time).run(),
    ]
    if controlled:
        runs.append(
            FrameworkController(
                store, clock=time.time, chance=chance, pace=ControllerOptions(coalesce_seconds=0.01)
            ).run()
        )
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        yield Place(store)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
