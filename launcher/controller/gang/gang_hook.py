"""Sees to gangs on a cluster: finds who can place them, and has them placed."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from launcher.controller.gang import gated_gangs
from launcher.controller.gang.backend_discovery import (
    Ask,
    AvailableBackends,
    Backend,
    BackendDiscovery,
    BuiltinBackend,
    choice,
)
from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest, is_of, reference
from launcher.controller.gang.gate_controller import GateController, Room
from launcher.controller.gang.kueue import QUEUE_LABEL, Kueue, queue_of
from launcher.controller.gang.pod_groups import Groups, PodGroupBackend
from launcher.core.errors import NotServed
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.planning.actions import ObjectEvent
from launcher.core.pods.overlay import PodOverlay
from launcher.core.serialization.status_json import status_from_json
from launcher.core.spec import RoleName
from launcher.core.status import State
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import FRAMEWORKS, PODS, Object, Store
from launcher.store.selectors import LabelRequirement, Operator, Selector


class ClusterGangHook:
    """The attendant of gangs, and those who work for it."""

    def __init__(
        self,
        store: Store,
        ask: Ask,
        room: Callable[[], Room],
        *,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        """*ask* is for what the API server says that it serves; *room* gives the means to see what fits."""
        self._store = store
        self._finder = BackendDiscovery(ask, clock)
        self._events = EventRecorder(store, clock)
        self._keeper = GateController(store, room, events=self._events, chance=chance)

    async def run(self) -> None:
        """Let gangs through until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._keeper.run())

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """What the pods get to be placed together. Raises LauncherError while they must not be created."""
        wanted = GangRequest(framework, attempt)
        if framework.spec.gang is None or not wanted.total:
            return {}
        served = await self._finder.served()
        try:
            earlier = await self._earlier(wanted)
            if earlier is not None:
                return await self._go_on(wanted, served, earlier["metadata"]["labels"])
            return await self._begin(wanted, served)
        except NotServed:
            self._finder.forget()
            raise

    async def finish(self, framework: Framework) -> None:
        """What stood for its gang is gone."""
        if framework.spec.gang is None:
            return
        served = await self._finder.served()
        for shape in served.shapes:
            await Groups(self._store, shape).finish(framework)
        if served.kueue:
            await Kueue(self._store, served.kueue).finish(framework)

    async def _earlier(self, wanted: GangRequest) -> Object | None:
        """A pod that the gang has already, if it has any: whoever places it places them all."""
        marks = {
            PodIdentityKey.FRAMEWORK_NAME.value: wanted.framework.name,
            PodIdentityKey.FRAMEWORK_ATTEMPT_ID.value: str(wanted.attempt),
        }
        of_gang = Selector((LabelRequirement(BACKEND_LABEL, Operator.EXISTS),))
        page = await self._store.list(
            PODS, wanted.framework.namespace, Selector.labelled(marks) & of_gang, limit=1
        )
        return next((pod for pod in page.items if is_of(pod, wanted.framework)), None)

    async def _begin(self, wanted: GangRequest, served: AvailableBackends) -> Mapping[RoleName, PodOverlay]:
        queue = wanted.gang.queue
        if not queue and served.kueue:
            stored = await self._stored(wanted)
            queue = queue_of(wanted, stored["metadata"].get("labels") or {})
        backend = choice(wanted, served, queue)
        extras = await self._from(backend, wanted, served, queue)
        self._events.record(
            reference(wanted.framework),
            [ObjectEvent("GangBackend", f"attempt {wanted.attempt}: {_words(wanted, backend)}")],
        )
        return extras

    async def _go_on(
        self, wanted: GangRequest, served: AvailableBackends, labels: Mapping[str, str]
    ) -> Mapping[RoleName, PodOverlay]:
        backend = served.by_name(labels[BACKEND_LABEL])
        status = status_from_json((await self._stored(wanted)).get("status") or {})
        if status is not None and status.attempt.id == wanted.attempt:
            names = {role.name for role in wanted.roles}
            tasks = [task for role in status.roles if role.name in names for task in role.tasks]
            wanted = replace(wanted, ended=sum(task.state is State.COMPLETED for task in tasks))
        return await self._from(backend, wanted, served, labels.get(QUEUE_LABEL, ""))

    async def _stored(self, wanted: GangRequest) -> Object:
        return await self._store.get(FRAMEWORKS, wanted.framework.namespace, wanted.framework.name)

    async def _from(
        self, backend: Backend, wanted: GangRequest, served: AvailableBackends, queue: str
    ) -> Mapping[RoleName, PodOverlay]:
        match backend:
            case PodGroupBackend():
                return await Groups(self._store, backend).prepare(wanted)
            case BuiltinBackend.KUEUE:
                return await Kueue(self._store, served.kueue).prepare(wanted, queue)
            case BuiltinBackend.GATES:
                self._keeper.notify()
                return gated_gangs.extras(wanted)


def _words(wanted: GangRequest, backend: Backend) -> str:
    """Who places the gang, for people."""
    of = "all" if wanted.least == wanted.total else f"at least {wanted.least} of"
    who = f"{of} {wanted.total} tasks are placed together by"
    match backend:
        case PodGroupBackend():
            return f"{who} {backend.title} ({backend.kind.kind} {wanted.name})"
        case BuiltinBackend.KUEUE:
            return f"all {wanted.total} tasks are let in together by Kueue (group {wanted.name})"
        case BuiltinBackend.GATES:
            return f"{of} {wanted.total} tasks are let through together by the launcher, as soon as they fit"
