"""A controller and a simulated cluster on a store that records calls and makes them fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any

from launcher.controller.attempt_hook import AttemptHook
from launcher.controller.framework_controller import ControllerOptions, FrameworkController
from launcher.controller.framework_state import Validator
from launcher.controller.log_copier import ContainerLogCopier, PodLogSource
from launcher.core.errors import Unavailable
from launcher.core.validation.framework import validation_errors
from launcher.store.interface import FRAMEWORKS, PODS, Change, DeleteOptions, Object, ResourceKind, Version
from launcher.store.selectors import EVERYTHING, Selector
from tests.controller.simulation.audit import Auditor
from tests.controller.simulation.cluster import SimulatedCluster, SimulatedStore

#: True in tasks of the controller; False in those of the cluster and of the test.
BY_CONTROLLER: ContextVar[bool] = ContextVar("BY_CONTROLLER", default=False)


class RecordingStore(SimulatedStore):
    """Records the controller's calls, and raises the error that ``fail`` returns for a call."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.calls: list[tuple[str, ResourceKind, Any]] = []
        self.fail: Callable[[str, ResourceKind, Any], Exception | None] = lambda verb, kind, argument: None
        #: Kinds without watch events.
        self.paused_watches: set[ResourceKind] = set()
        self.calls_in_flight = self.max_calls_in_flight = 0
        self.auditor = Auditor()
        self.audit = self.auditor

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        call = super().create
        return await self._call("create", kind, obj, lambda: call(kind, obj, dry_run=dry_run))

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        call = super().update_status
        return await self._call("update_status", kind, obj, lambda: call(kind, obj, dry_run=dry_run))

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        call = super().delete
        return await self._call(
            "delete", kind, name, lambda: call(kind, namespace, name, options, dry_run=dry_run)
        )

    async def watch(  # type: ignore[override]  # a generator is an iterator
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        async for change in super().watch(kind, namespace, selector, since=since, bookmarks=bookmarks):
            if kind not in self.paused_watches:
                yield change

    async def _call(
        self, verb: str, kind: ResourceKind, argument: Any, call: Callable[[], Awaitable[Object]]
    ) -> Object:
        if not BY_CONTROLLER.get():
            return await call()
        self.calls.append((verb, kind, argument))
        error = self.fail(verb, kind, argument)
        if error is not None:
            raise error
        self.calls_in_flight += 1
        self.max_calls_in_flight = max(self.max_calls_in_flight, self.calls_in_flight)
        try:
            await asyncio.sleep(0.001)
            return await call()
        finally:
            self.calls_in_flight -= 1

    def count(self, verb: str, kind: ResourceKind) -> int:
        return sum(call[:2] == (verb, kind) for call in self.calls)

    async def status(self, name: str = "f") -> Object:
        status: Object = (await self.get(FRAMEWORKS, "default", name)).get("status") or {}
        return status

    async def pods(self) -> dict[str, Object]:
        return {pod["metadata"]["name"]: pod for pod in (await self.list(PODS)).items}


@asynccontextmanager
async def run_controller(
    store: RecordingStore,
    *,
    seconds: float = 5.0,
    code: int = 0,
    validate: Validator = validation_errors,
    hooks: Sequence[AttemptHook] = (),
    log_copier: ContainerLogCopier | None = None,
    log_source: PodLogSource | None = None,
    **options: Any,
) -> AsyncIterator[FrameworkController]:
    """Runs a controller, and a cluster whose pods run for *seconds* and exit with *code*."""
    controller = FrameworkController(
        store,
        clock=store.clock,
        jitter=lambda: 0.5,
        options=ControllerOptions(**options),
        validate=validate,
        hooks=hooks,
        log_copier=log_copier,
        log_source=log_source,
    )
    cluster = SimulatedCluster(store, Random(2), lambda _: (seconds, code))
    context = copy_context()
    context.run(BY_CONTROLLER.set, True)
    tasks = [asyncio.create_task(controller.run(), context=context), asyncio.create_task(cluster.run())]
    try:
        yield controller
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)


async def wait_for_state(
    store: RecordingStore, state: str, name: str = "f", *, timeout_seconds: float = 120.0
) -> None:
    """Returns when the Framework has that state."""
    async with asyncio.timeout(timeout_seconds):
        while (await store.status(name)).get("state") != state:  # noqa: ASYNC110  virtual time costs nothing
            await asyncio.sleep(0.1)


def unavailable(verb: str, kind: ResourceKind) -> Callable[[str, ResourceKind, Any], Exception | None]:
    """Returns a ``fail`` function that makes calls with that verb and kind unavailable."""
    return lambda v, k, _: Unavailable("down") if (v, k) == (verb, kind) else None
