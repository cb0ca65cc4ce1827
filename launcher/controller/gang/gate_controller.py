"""
Removes the scheduling gates of gangs that fit into the cluster, one gang after the other, the oldest first.

Nodes and scheduled pods are watched only while a gang is waiting. All state is in the pods, so a restart loses
nothing: a gang with some admitted pods is admitted completely.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from launcher.controller.gang.backend_discovery import BuiltinBackend
from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.gated_gangs import GatedGang, GatedGangs, gate_removal
from launcher.core.errors import LauncherError, NotFound
from launcher.core.events import ObjectEvent
from launcher.core.names import BACKEND_LABEL
from launcher.core.planning.gang import is_placed
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.serialization.framework_json import framework_from_json
from launcher.scheduling.capacity import ClusterCapacity
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, Informer
from launcher.store.interface import FRAMEWORKS, NODES, PODS, Key, MergePatch, Object, Store
from launcher.store.object_errors import object_errors
from launcher.store.selectors import FieldRequirement, Selector

log = logging.getLogger(__name__)

_COMPONENT: Final = "gang-admission"
#: Pods that have, or had, the scheduling gate.
GATED_PODS: Final = Selector.for_labels({BACKEND_LABEL: BuiltinBackend.GATES.value})
#: Pods that use resources of a node.
_SCHEDULED_PODS: Final = Selector(
    fields=(
        FieldRequirement("spec.nodeName", "", equal=False),
        FieldRequirement("status.phase", "Succeeded", equal=False),
        FieldRequirement("status.phase", "Failed", equal=False),
    )
)
#: Concurrent calls that remove gates.
_MAX_CALLS: Final = 16
#: Minimum seconds between two passes over the waiting gangs, and the maximum share of time spent on them.
_MIN_INTERVAL_SECONDS: Final = 0.5
_MAX_LOAD: Final = 0.1
#: Seconds of a pass after which it yields to the event loop. Not after each gang: the next gang would get capacity that
#: becomes free in between, although an older one is waiting for it.
_YIELD_SECONDS: Final = 0.02
#: Minimum seconds between two GangPending events of one gang.
_EVENT_INTERVAL_SECONDS: Final = 60.0
#: Seconds after which the Framework of a gang with missing pods is read.
_RECHECK_SECONDS: Final = 10.0


class GateController:
    """Admits gangs by removing the gates of their pods."""

    def __init__(
        self,
        store: Store,
        *,
        events: EventRecorder,
        jitter: Callable[[], float],
        capacity: Callable[[], ClusterCapacity] = ClusterCapacity,
    ) -> None:
        """*capacity* returns an empty cluster. The caller runs *events*."""
        self._store, self._events, self._jitter, self._new_capacity = store, events, jitter, capacity
        self._gangs = GatedGangs()
        self._notified, self._changed = asyncio.Event(), asyncio.Event()
        self._members = Informer(store, PODS, GATED_PODS, jitter=jitter)
        self._members.add_event_handler(
            EventHandlerFuncs(self.on_member_upsert, self.on_member_delete), component=_COMPONENT
        )
        #: Set while gangs are waiting.
        self._capacity: ClusterCapacity | None = None
        self._backoff = ExponentialBackoff(initial=0.2, maximum=30.0)

    def notify(self) -> None:
        """Starts the controller, because pods with gates will be created."""
        self._notified.set()

    async def run(self) -> None:
        """Admits gangs until cancelled."""
        await self._wait_for_gated_pods()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._members.run())
            # Before all pods are observed, an admitted gang may seem not to be.
            await self._members.synced.wait()
            while True:
                await self._admit_remaining_pods()
                if self._gangs.waiting():
                    await self._admit_waiting_gangs()
                await self._wait(_RECHECK_SECONDS if self._gangs.incomplete() else None)

    async def _wait_for_gated_pods(self) -> None:
        """Returns when pods with gates exist, or will exist soon."""
        while not self._notified.is_set():
            try:
                if (await self._store.list(PODS, None, GATED_PODS, limit=1)).items:
                    return
            except LauncherError as error:
                log.warning("listing gated pods failed", extra={"error": str(error)})
                await asyncio.sleep(self._backoff.next_delay())
            else:
                await self._notified.wait()
        self._backoff.reset()

    async def _wait(self, seconds: float | None) -> None:
        """Returns after a change, or after *seconds*."""
        await wait_or_timeout(self._changed, seconds)
        self._changed.clear()

    # Gangs whose capacity is reserved already.

    async def _admit_remaining_pods(self) -> None:
        """Removes the gates of pods whose gang was admitted before."""
        for gang in self._gangs.partially_admitted():
            with self._handling(gang):
                if self._capacity is not None:
                    self._capacity.reserve([*gang.gated.values()], 0)
                await self._remove_gates(gang)
        now = asyncio.get_running_loop().time()
        for gang in self._gangs.incomplete():
            if gang.recheck_at is None:
                gang.recheck_at = now + _RECHECK_SECONDS  # until then its pods are probably being created
            if gang.has_lost_pod or now >= gang.recheck_at:
                gang.has_lost_pod, gang.recheck_at = False, now + _RECHECK_SECONDS
                with self._handling(gang):
                    await self._refresh_from_framework(gang)

    def _handling(self, gang: GatedGang) -> AbstractContextManager[None]:
        return object_errors.handling(_COMPONENT, FRAMEWORKS.plural, (gang.namespace, gang.framework))

    async def _refresh_from_framework(self, gang: GatedGang) -> None:
        """Reads the Framework: tasks may have been removed, or completed with their pods deleted."""
        try:
            obj = await self._store.get(FRAMEWORKS, gang.namespace, gang.framework)
            framework = framework_from_json(obj)
        except (LauncherError, ValueError) as error:
            log.info("framework not read", extra={"framework": gang.framework, "error": str(error)})
            return
        gang.minimum = min(gang.minimum, GangRequest(framework, gang.attempt).minimum)
        status = framework.status
        if status is not None and status.attempt.id == gang.attempt and is_placed(status):
            gang.was_placed = True
        if gang.is_admitted or gang.is_complete:
            self._changed.set()

    # Gangs that wait for capacity.

    async def _admit_waiting_gangs(self) -> None:
        """Returns when no gang is waiting for capacity."""
        capacity = self._capacity = self._new_capacity()
        nodes = Informer(self._store, NODES, jitter=self._jitter)
        nodes.add_event_handler(
            EventHandlerFuncs(
                lambda _key, node: capacity.set_node(node), lambda key: capacity.remove_node(key[1])
            ),
            component=_COMPONENT,
        )
        scheduled = Informer(self._store, PODS, _SCHEDULED_PODS, jitter=self._jitter)
        scheduled.add_event_handler(
            EventHandlerFuncs(lambda _key, pod: capacity.add_pod(pod), capacity.remove_pod),
            component=_COMPONENT,
        )
        notify = EventHandlerFuncs(lambda _key, _obj: self._changed.set(), lambda _key: self._changed.set())
        nodes.add_event_handler(notify, component=_COMPONENT)
        scheduled.add_event_handler(notify, component=_COMPONENT)
        try:
            async with asyncio.TaskGroup() as group:
                informer_tasks = [group.create_task(nodes.run()), group.create_task(scheduled.run())]
                await nodes.synced.wait()
                await scheduled.synced.wait()
                capacity.reserve([*self._gangs.released_pods()], 0)
                await self._admit_in_order(capacity)
                for task in informer_tasks:
                    task.cancel()
        finally:
            self._capacity = None

    async def _admit_in_order(self, capacity: ClusterCapacity) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await self._admit_remaining_pods()
            started_at = yielded_at = clock()
            for gang in self._gangs.waiting():
                with self._handling(gang):
                    await self._try_admit(capacity, gang)
                if clock() - yielded_at > _YIELD_SECONDS:
                    await asyncio.sleep(0)  # yields to the event loop
                    yielded_at = clock()
            if not self._gangs.waiting():
                return
            duration = clock() - started_at
            await asyncio.sleep(max(_MIN_INTERVAL_SECONDS, duration / _MAX_LOAD))
            await self._wait(_RECHECK_SECONDS)

    async def _try_admit(self, capacity: ClusterCapacity, gang: GatedGang) -> None:
        if gang.is_admitted or not gang.is_complete:
            return  # it changed during the pass
        reason = capacity.reserve([*gang.gated.values()], gang.minimum)
        if reason is None:
            log.info("gang admitted", extra={"framework": (gang.namespace, gang.framework)})
            self._record_event(
                gang,
                ObjectEvent(
                    "GangAdmitted", f"Capacity found for {len(gang.gated)} tasks; scheduling gates removed."
                ),
            )
            await self._remove_gates(gang)
        else:
            self._record_event(gang, ObjectEvent("GangPending", reason, warning=True))

    def _record_event(self, gang: GatedGang, event: ObjectEvent) -> None:
        now = asyncio.get_running_loop().time()
        if gang.last_message == event.message or (event.warning and now < gang.next_event_at):
            return
        gang.last_message, gang.next_event_at = event.message, now + _EVENT_INTERVAL_SECONDS
        self._events.record(gang.framework_reference(), [event])

    # Writes.

    async def _remove_gates(self, gang: GatedGang) -> None:
        """Removes the gates of all pods of the gang; pods for which that fails are retried."""
        pods = iter([*gang.gated.values()])
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._remove_each_gate(pods))
                for _ in range(min(_MAX_CALLS, len(gang.gated)))
            ]
        if all(task.result() for task in tasks):
            self._backoff.reset()
            return
        await asyncio.sleep(self._backoff.next_delay())
        self._changed.set()

    async def _remove_each_gate(self, pods: Iterable[Object]) -> bool:
        """Removes the gates of these pods. Returns whether all succeeded."""
        succeeded = True
        for pod in pods:
            meta = pod["metadata"]
            try:
                patch = MergePatch(gate_removal(pod))
                self._members.upsert(await self._store.patch(PODS, meta["namespace"], meta["name"], patch))
            except NotFound:
                pass  # the watch reports the deletion
            except LauncherError as error:
                log.info("scheduling gate not removed", extra={"pod": meta["name"], "error": str(error)})
                succeeded = False
        return succeeded

    # Event handlers.

    def on_member_upsert(self, key: Key, pod: Object) -> None:
        self._gangs.upsert(key, pod)
        if self._capacity is not None and has_terminated(pod):
            # Also its reservation, if it terminated before its node was observed.
            self._capacity.remove_pod(key)
        self._changed.set()

    def on_member_delete(self, key: Key) -> None:
        self._gangs.remove(key)
        if self._capacity is not None:
            self._capacity.remove_pod(key)
        self._changed.set()
