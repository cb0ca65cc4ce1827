"""A controller and a cluster around a store that counts calls and fails them at will."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any

from launcher.controller.attempt_hook import AttemptHook
from launcher.controller.framework_controller import ControllerOptions, FrameworkController
from launcher.controller.framework_state import Validator
from launcher.core.errors import Unavailable
from launcher.core.validation.framework import validation_errors
from launcher.store.interface import FRAMEWORKS, PODS, Change, DeleteOptions, Object, ResourceKind, Version
from launcher.store.selectors import EVERYTHING, Selector
from tests.controller.simulation.audit import Auditor
from tests.controller.simulation.cluster import Cluster, SimulatedStore

#: True in whatever the controller does, as against the cluster and the users around it.
BY_CONTROLLER: ContextVar[bool] = ContextVar("BY_CONTROLLER", default=False)


class Watched(SimulatedStore):
    """Counts the controller's calls, and fails those that a test wants to fail."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.calls: list[tuple[str, ResourceKind, Any]] = []
        self.fails: Callable[[str, ResourceKind, Any], Exception | None] = lambda verb, kind, what: None
        self.muted: set[ResourceKind] = set()
        self.under_way = self.most_under_way = 0
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
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        call = super().delete
        return await self._call(
            "delete", kind, name, lambda: call(kind, namespace, name, how, dry_run=dry_run)
        )

    async def watch(  # type: ignore[override]  # an iterator all the same
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        async for change in super().watch(kind, namespace, where, since=since, bookmarks=bookmarks):
            if kind not in self.muted:
                yield change

    async def _call(
        self, verb: str, kind: ResourceKind, what: Any, call: Callable[[], Awaitable[Object]]
    ) -> Object:
        if not BY_CONTROLLER.get():
            return await call()
        self.calls.append((verb, kind, what))
        error = self.fails(verb, kind, what)
        if error is not None:
            raise error
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0.001)
            return await call()
        finally:
            self.under_way -= 1

    def count(self, verb: str, kind: ResourceKind) -> int:
        return sum(call[:2] == (verb, kind) for call in self.calls)

    async def status(self, name: str = "f") -> Object:
        status: Object = (await self.get(FRAMEWORKS, "default", name)).get("status") or {}
        return status

    async def pods(self) -> dict[str, Object]:
        return {pod["metadata"]["name"]: pod for pod in (await self.list(PODS)).items}


@asynccontextmanager
async def launched(
    store: Watched,
    *,
    seconds: float = 5.0,
    code: int = 0,
    check: Validator = validation_errors,
    attendants: Sequence[AttemptHook] = (),
    **pace: Any,
) -> AsyncIterator[FrameworkController]:
    """A controller and a cluster whose pods run for *seconds* and end with *code*."""
    controller = FrameworkController(
        store,
        clock=store.clock,
        chance=lambda: 0.5,
        pace=ControllerOptions(**pace),
        check=check,
        attendants=attendants,
    )
    cluster = Cluster(store, Random(2), lambda _: (seconds, code))
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


async def reaches(store: Watched, state: str, name: str = "f", *, within: float = 120.0) -> None:
    async with asyncio.timeout(within):
        while (await store.status(name)).get("state") != state:  # noqa: ASYNC110  virtual time costs nothing
            await asyncio.sleep(0.1)


def down(verb: str, kind: ResourceKind) -> Callable[[str, ResourceKind, Any], Exception | None]:
    return lambda v, k, _: Unavailable("down") if (v, k) == (verb, kind) else None
