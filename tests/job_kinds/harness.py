"""The job controller, the framework controller and the garbage collector on one store; tests act as the nodes."""

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
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.node.garbage_collector.garbage_collector import GarbageCollector
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.informer import SharedInformers
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, DeleteOptions, MergePatch, Object, ResourceKind
from tests.eventually import eventually
from tests.job_kinds.samples import counts
from tests.job_kinds.samples import states as states_of

T = TypeVar("T")

(TFJOB,) = [job_kind for job_kind in JOB_KINDS if job_kind.kind.kind == "TFJob"]
TFJOBS = TFJOB.kind


class WriteRecordingStore(MemoryStore):
    """Records all writes, and raises the error that ``fail`` returns for one."""

    def __init__(self) -> None:
        super().__init__(time.time, lambda: str(uuid4()))
        self.writes: list[tuple[str, str]] = []
        self.fail: Callable[[str, ResourceKind], Exception | None] = lambda verb, kind: None

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._record("create", kind)
        return await super().create(kind, obj, dry_run=dry_run)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._record("update", kind)
        return await super().update(kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._record("update_status", kind)
        return await super().update_status(kind, obj, dry_run=dry_run)

    def _record(self, verb: str, kind: ResourceKind) -> None:
        self.writes.append((verb, kind.kind))
        if (error := self.fail(verb, kind)) is not None:
            raise error


class JobHarness:
    """Actions of users and nodes, and waiting for their results."""

    def __init__(self, store: WriteRecordingStore) -> None:
        self.store = store

    async def submit(self, job: Object) -> Object:
        return await self.store.create(
            TFJOBS, {**job, "metadata": {**job["metadata"], "namespace": "default"}}
        )

    async def job(self, name: str = "dist") -> Object:
        return await self._get(TFJOBS, name)

    async def framework(self, name: str = "dist") -> Object:
        return await self._get(FRAMEWORKS, name)

    async def pods(self) -> dict[str, str]:
        """The phase of each pod."""
        page = await self.store.list(PODS, "default")
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in page.items}

    async def events(self) -> list[str]:
        """Returns the reasons of the jobs' events, in order."""
        page = await self.store.list(EVENTS, "default")
        events = sorted(page.items, key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event["reason"] for event in events if event["involvedObject"]["kind"] == "TFJob"]

    async def patch_spec(self, changes: Object, name: str = "dist") -> None:
        """Patches the spec of the job."""
        await self.store.patch(TFJOBS, "default", name, MergePatch({"spec": changes}))

    async def delete(self, kind: ResourceKind, name: str, options: DeleteOptions | None = None) -> None:
        await self.store.delete(kind, "default", name, options or DeleteOptions())

    # Nodes.

    async def run_pods(self, *names: str) -> None:
        """Reports these pods as running, as soon as they exist."""
        for name in names:
            await self.eventually(partial(self._exists, name), f"{name} exists")
            await self._report(name, {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.1"})

    async def terminate_pod(self, name: str, code: int | None = 0, reason: str = "") -> None:
        """Reports the pod as terminated, with the exit code of its container if any."""
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

    async def eventually(self, probe: Callable[[], Awaitable[T | None]], description: str) -> T:
        """Returns the first result of *probe* that is not empty."""

        async def non_empty() -> T | None:
            return await probe() or None

        return await eventually(non_empty, description)

    async def wait_for_conditions(self, *states: str, name: str = "dist") -> Object:
        """Returns the job, as soon as it has these conditions in this order."""

        async def job_with_conditions() -> Object | None:
            job = await self.job(name)
            return job if states_of(job) == list(states) else None

        return await self.eventually(job_with_conditions, f"{name} is {', '.join(states)}")

    async def wait_until_failed(self) -> Object:
        """Returns the job, as soon as it has failed."""

        async def failed_job() -> Object | None:
            job = await self.job()
            return job if "Failed" in states_of(job) else None

        return await self.eventually(failed_job, "the job has failed")

    async def wait_for_counts(self, **types: Object) -> Object:
        """Returns the job, as soon as it has these replica counts."""

        async def job_with_counts() -> Object | None:
            job = await self.job()
            return job if "replicaStatuses" in (job.get("status") or {}) and counts(job) == types else None

        return await self.eventually(job_with_counts, f"the counts are {types}")

    async def wait_for_event(self, reason: str) -> list[str]:
        """Returns the reasons of all events, as soon as *reason* is one of them."""

        async def reasons() -> list[str] | None:
            events = await self.events()
            return events if reason in events else None

        return await self.eventually(reasons, f"an event {reason}")

    async def wait_for_pods(self, *names: str) -> None:
        """Returns when exactly these pods exist."""

        async def only_these() -> bool:
            return sorted(await self.pods()) == sorted(names)

        await self.eventually(only_these, f"exactly {names} exist")

    async def wait_until_deleted(self) -> None:
        """Returns when the job does not exist."""

        async def is_deleted() -> bool:
            return not await self.job()

        await self.eventually(is_deleted, "the job is deleted")

    async def wait_until_idle(self) -> None:
        """Returns when nothing has been written for some time."""
        before = -1
        while before != self.store.version:
            before = self.store.version
            await asyncio.sleep(0.3)

    async def _exists(self, pod: str) -> bool:
        return bool(await self._get(PODS, pod))

    async def _report(self, pod: str, status: Object) -> None:
        await self.store.patch(PODS, "default", pod, MergePatch({"status": status}), subresource="status")

    async def _get(self, kind: ResourceKind, name: str) -> Object:
        try:
            return await self.store.get(kind, "default", name)
        except NotFound:
            return {}


@asynccontextmanager
async def run_job_controller(
    store: WriteRecordingStore | None = None,
    policy_errors: Callable[[Object], tuple[FieldError, ...]] = lambda _: (),
    *,
    run_framework_controller: bool = True,
) -> AsyncIterator[JobHarness]:
    """Runs all controllers; without the framework controller, Frameworks do not change."""
    store = store or WriteRecordingStore()
    jitter = Random(1).random
    informers = SharedInformers(store)
    coroutines = [
        JobController(store, TFJOB, clock=time.time, jitter=jitter, policy_errors=policy_errors).run(),
        GarbageCollector(store, informers, clock=time.time, job_kinds=[TFJOB.kind]).run(),
        informers.run(),
    ]
    if run_framework_controller:
        coroutines.append(
            FrameworkController(
                store, clock=time.time, jitter=jitter, options=ControllerOptions(coalesce_seconds=0.01)
            ).run()
        )
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield JobHarness(store)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
