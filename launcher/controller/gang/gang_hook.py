"""The attempt hook of gangs on a cluster: chooses a backend and creates its objects."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from launcher.controller.gang import gated_gangs
from launcher.controller.gang.backend_discovery import (
    AvailableBackends,
    Backend,
    BackendDiscovery,
    BuiltinBackend,
    choose_backend,
)
from launcher.controller.gang.gang_request import (
    GangRequest,
    is_controlled_by,
)
from launcher.controller.gang.gate_controller import GateController
from launcher.controller.gang.kueue import QUEUE_LABEL, Kueue, queue_name
from launcher.controller.gang.pod_groups import PodGroupBackend, PodGroups
from launcher.core.errors import NotServed
from launcher.core.events import ObjectEvent, framework_reference
from launcher.core.framework import Framework
from launcher.core.names import BACKEND_LABEL, PodIdentityKey
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.core.status import State
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import FRAMEWORKS, PODS, Discover, Object, Store
from launcher.store.selectors import LabelRequirement, Operator, Selector


class ClusterGangHook:
    """Prepares gangs for their backend, and runs the controller of scheduling gates."""

    def __init__(
        self,
        store: Store,
        discover: Discover,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        self._store = store
        self._discovery = BackendDiscovery(discover, clock)
        self._events = EventRecorder(store, clock)
        self._gate_controller = GateController(store, events=self._events, jitter=jitter)

    async def run(self) -> None:
        """Removes scheduling gates until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._gate_controller.run())

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """Returns the pod overlays of the gang. Raises LauncherError while no pods may be created."""
        request = GangRequest(framework, attempt)
        if framework.spec.gang is None or not request.total:
            return {}
        available = await self._discovery.available_backends()
        try:
            existing = await self._existing_pod(request)
            if existing is not None:
                return await self._continue_gang(request, available, existing["metadata"]["labels"])
            return await self._start_gang(request, available)
        except NotServed:
            self._discovery.invalidate()
            raise

    async def finish(self, framework: Framework) -> None:
        """Deletes the pod groups of the Framework."""
        if framework.spec.gang is None:
            return
        available = await self._discovery.available_backends()
        for backend in available.pod_groups:
            await PodGroups(self._store, backend).finish(framework)
        if available.kueue_version:
            await Kueue(self._store, available.kueue_version).finish(framework)

    async def _existing_pod(self, request: GangRequest) -> Object | None:
        """Returns an existing pod of the gang, if any: its backend is used for all pods."""
        labels = {
            PodIdentityKey.FRAMEWORK_NAME.value: request.framework.name,
            PodIdentityKey.FRAMEWORK_ATTEMPT_ID.value: str(request.attempt),
        }
        selector = Selector.for_labels(labels) & Selector((LabelRequirement(BACKEND_LABEL, Operator.EXISTS),))
        page = await self._store.list(PODS, request.framework.namespace, selector, limit=1)
        return next((pod for pod in page.items if is_controlled_by(pod, request.framework)), None)

    async def _start_gang(
        self, request: GangRequest, available: AvailableBackends
    ) -> Mapping[RoleName, PodOverlay]:
        queue = request.gang.queue
        if not queue and available.kueue_version:
            obj = await self._store.get(FRAMEWORKS, request.framework.namespace, request.framework.name)
            queue = queue_name(request, obj["metadata"].get("labels") or {})
        backend = choose_backend(request, available, queue)
        overlays = await self._prepare_backend(backend, request, available, queue)
        self._events.record(
            framework_reference(request.framework.namespace, request.framework.name, request.framework.uid),
            [ObjectEvent("GangBackend", f"Attempt {request.attempt + 1}: {_describe(request, backend)}")],
        )
        return overlays

    async def _continue_gang(
        self, request: GangRequest, available: AvailableBackends, labels: Mapping[str, str]
    ) -> Mapping[RoleName, PodOverlay]:
        backend = available.by_name(labels[BACKEND_LABEL])
        request = replace(request, completed_tasks=_completed_tasks(request))
        return await self._prepare_backend(backend, request, available, labels.get(QUEUE_LABEL, ""))

    async def _prepare_backend(
        self, backend: Backend, request: GangRequest, available: AvailableBackends, queue: str
    ) -> Mapping[RoleName, PodOverlay]:
        match backend:
            case PodGroupBackend():
                return await PodGroups(self._store, backend).prepare(request)
            case BuiltinBackend.KUEUE:
                return await Kueue(self._store, available.kueue_version).prepare(request, queue)
            case BuiltinBackend.GATES:
                self._gate_controller.notify()
                return gated_gangs.pod_overlays(request)


def _completed_tasks(request: GangRequest) -> int:
    status = request.framework.status
    if status is None:
        return 0
    role_names = {role.name for role in request.roles}
    tasks = (task for role in status.roles if role.name in role_names for task in role.tasks)
    return sum(task.state is State.COMPLETED for task in tasks)


def _describe(request: GangRequest, backend: Backend) -> str:
    """Describes the backend for an event."""
    quantity = "all" if request.minimum == request.total else f"at least {request.minimum} of"
    prefix = f"{quantity} {request.total} tasks are scheduled together by"
    match backend:
        case PodGroupBackend():
            return f"{prefix} {backend.title} ({backend.kind.kind} {request.name})."
        case BuiltinBackend.KUEUE:
            return f"all {request.total} tasks are admitted together by Kueue (group {request.name})."
        case BuiltinBackend.GATES:
            return f"{prefix} the launcher's scheduling gates."
