"""
Scheduler of local mode: binds pods to nodes and reports why others are pending.

Informers feed the ``SchedulingEngine``; its decisions are written many at a time. A pod counts as bound before the
write; if the write fails, the pod is read again and becomes pending again unless it was bound. All state can be
rebuilt from the store after a restart.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from launcher.core.errors import LauncherError, NotFound
from launcher.core.events import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated, node_name
from launcher.core.pods.start_failure import EXCEEDS_CAPACITY
from launcher.core.timestamps import format_rfc3339
from launcher.scheduling.cluster_state import node_attributes
from launcher.scheduling.engine import COMPONENT, Binding, SchedulingEngine
from launcher.scheduling.pod_info import (
    POD_SCHEDULED,
    SCHEDULER_NAME,
    PodView,
    ScheduledCondition,
    gang_membership,
    needs_node,
    pod_info,
    pod_view,
)
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, SharedInformers
from launcher.store.interface import NODES, PODS, Key, MergePatch, Object, Store
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: Concurrent writes; the store commits them together.
_CONCURRENT_WRITES: Final = 256
#: Number of decisions before the event loop runs other tasks.
_BATCH_SIZE: Final = 64
#: Interval at which the conditions of pending pods are updated.
_CONDITION_REFRESH_SECONDS: Final = 60.0
_GATED: Final = ScheduledCondition(
    "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
)


@dataclass(frozen=True, slots=True)
class _UnscheduledPod:
    """A pod without a node."""

    view: PodView
    #: The reason why it is not passed to the engine; None for a pending pod.
    blocked_by: ScheduledCondition | None = None


class Scheduler:
    """Schedules pods until cancelled."""

    def __init__(
        self,
        store: Store,
        informers: SharedInformers,
        *,
        events: EventRecorder,
        clock: Callable[[], float],
        reserve_after: float = 60.0,
    ) -> None:
        """
        Capacity is reserved for pods pending for *reserve_after* seconds.

        The caller runs *informers* and *events*.
        """
        self._store, self._events, self._clock = store, events, clock
        self._engine = SchedulingEngine(reserve_after)
        self._unscheduled: dict[Key, _UnscheduledPod] = {}
        self._nodes = informers.add_event_handler(
            NODES, EventHandlerFuncs(self.on_node_upsert, self.on_node_delete), component=COMPONENT
        )
        self._pods = informers.add_event_handler(
            PODS, EventHandlerFuncs(self.on_pod_upsert, self.on_pod_delete), component=COMPONENT
        )
        self._changed = asyncio.Event()
        self._refresh_at = 0.0
        self._writes: asyncio.Queue[Binding | Key] = asyncio.Queue()
        #: Set while the queue of writes is short enough for more decisions.
        self._writers_available = asyncio.Event()
        #: Pods with a queued condition write.
        self._queued_conditions: set[Key] = set()
        self._backoff = ExponentialBackoff(initial=0.05, maximum=10.0)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            # All nodes, so that no pod is reported unschedulable for lack of nodes; and all pods, because otherwise
            # nodes seem to have more free than they have.
            await self._nodes.synced.wait()
            await self._pods.synced.wait()
            for _ in range(_CONCURRENT_WRITES):
                group.create_task(self._run_writer())
            while True:
                await self._schedule()
                await self._wait()

    async def _wait(self) -> None:
        """Waits for a change or for the next decision time."""
        now = self._clock()
        next_decision_at = self._engine.next_decision_at(now)
        seconds = (
            min(next_decision_at - now, _CONDITION_REFRESH_SECONDS)
            if next_decision_at is not None
            else _CONDITION_REFRESH_SECONDS
        )
        await wait_or_timeout(self._changed, max(seconds, 0.01))
        self._changed.clear()

    async def _schedule(self) -> None:
        while bindings := self._engine.schedule(self._clock(), _BATCH_SIZE):
            for binding in bindings:
                self._writes.put_nowait(binding)
            self._writers_available.clear()
            await self._writers_available.wait()
        for key in list(self._engine.take_newly_rejected()):
            self._enqueue_condition(key)
        if (now := self._clock()) >= self._refresh_at:
            self._refresh_at = now + _CONDITION_REFRESH_SECONDS
            for key in list(self._engine.pending()):
                self._enqueue_condition(key)

    def _enqueue_condition(self, key: Key) -> None:
        """Queues a write of the pod's condition if it is outdated."""
        if key not in self._queued_conditions and self._condition_to_write(key) is not None:
            self._queued_conditions.add(key)
            self._writes.put_nowait(key)

    # Event handlers.

    def on_node_upsert(self, _key: Key, node: Object) -> None:
        self._engine.set_node(node_attributes(node))
        self._changed.set()

    def on_node_delete(self, key: Key) -> None:
        self._engine.remove_node(key[1])
        self._changed.set()

    def on_pod_upsert(self, key: Key, pod: Object) -> None:
        if has_terminated(pod):
            self._observe_terminated(key, pod)
        elif (node := node_name(pod)) is not None:
            self._observe_bound(key, pod, node)
        elif needs_node(pod):
            self._observe_pending(key, pod)
        else:
            self.on_pod_delete(key)
        self._changed.set()

    def _observe_terminated(self, key: Key, pod: Object) -> None:
        self._unscheduled.pop(key, None)
        try:
            gang = gang_membership(pod) if node_name(pod) else None
        except ValueError:
            gang = None  # invalid annotations: it was never scheduled as part of a gang
        self._engine.pod_completed(key, gang)

    def _observe_bound(self, key: Key, pod: Object, node: str) -> None:
        self._unscheduled.pop(key, None)
        if not self._engine.is_known(pod, node):
            try:
                self._engine.pod_bound(pod_info(pod), node)
            except ValueError as error:
                log.warning("invalid pod on a node ignored", extra={"pod": key, "error": str(error)})
                self._engine.remove_pod(key)

    def _observe_pending(self, key: Key, pod: Object) -> None:
        before, view = self._unscheduled.get(key), pod_view(pod)
        if view.missing_scheduler and (before is None or before.view.uid != view.uid):
            self._events.record(pod, [_scheduler_not_found(view.missing_scheduler)])
        blocked_by, info = _GATED if view.gated else None, None
        try:
            info = pod_info(pod)
        except ValueError as error:
            blocked_by = ScheduledCondition("Unschedulable", f"invalid pod: {error}")
        self._unscheduled[key] = _UnscheduledPod(view, blocked_by)
        if blocked_by is not None or info is None:
            self._engine.remove_pod(key)
            self._enqueue_condition(key)
            return
        # Waiting time counts from the removal of the scheduling gates, if that was observed.
        released = before is not None and before.view.uid == view.uid and before.blocked_by is not None
        self._engine.add_pending(info, view.priority, self._clock() if released else view.created)

    def on_pod_delete(self, key: Key) -> None:
        self._unscheduled.pop(key, None)
        self._engine.remove_pod(key)
        self._changed.set()

    # Writes.

    async def _run_writer(self) -> None:
        while True:
            write = await self._writes.get()
            if self._writes.qsize() < _CONCURRENT_WRITES:
                self._writers_available.set()
            key = write.pod.key if isinstance(write, Binding) else write
            try:
                await (self._bind(write) if isinstance(write, Binding) else self._write_condition(write))
            except Exception as error:  # this pod is ignored until it changes; others are scheduled
                object_errors.record(COMPONENT, PODS.plural, key, error)
                self._queued_conditions.discard(key)
                self.on_pod_delete(key)

    async def _bind(self, binding: Binding) -> None:
        pod, (namespace, name) = binding.pod, binding.pod.key
        unscheduled = self._unscheduled.get(pod.key)
        if unscheduled is None or unscheduled.view.uid != pod.uid:
            self._engine.forget_assumed(pod)
            return
        change = {
            "metadata": {"uid": pod.uid, "resourceVersion": unscheduled.view.version},
            "spec": {"nodeName": binding.node},
        }
        try:
            updated = await self._store.patch(PODS, namespace, name, MergePatch(change))
        except LauncherError as error:
            log.info("pod binding failed", extra={"pod": pod.key, "node": binding.node, "error": str(error)})
            await self._refresh_pod(pod.key)
            self._engine.forget_assumed(pod)
            self._changed.set()
            return
        self._backoff.reset()
        self._pods.upsert(updated)
        event = ObjectEvent("Scheduled", f"Successfully assigned {namespace}/{name} to {binding.node}")
        self._events.record(updated, [event])

    async def _refresh_pod(self, key: Key) -> None:
        """Reads the pod from the store into the informer; retries until that succeeds."""
        while True:
            await asyncio.sleep(self._backoff.next_delay())
            try:
                self._pods.upsert(await self._store.get(PODS, *key))
            except NotFound:
                return  # the watch reports the deletion
            except LauncherError as error:
                log.warning("pod read failed", extra={"pod": key, "error": str(error)})
            else:
                return

    def _condition_to_write(self, key: Key) -> ScheduledCondition | None:
        """Returns the condition that the pod should have, or None if it has it."""
        unscheduled = self._unscheduled.get(key)
        if unscheduled is None:
            return None
        condition = unscheduled.blocked_by
        if condition is None:
            message = self._engine.unschedulable_reason(key)
            if message is not None:
                exceeds = self._engine.exceeds_capacity(key)
                condition = ScheduledCondition("Unschedulable", message, exceeds)
        return condition if condition != unscheduled.view.condition else None

    async def _write_condition(self, key: Key) -> None:
        """Writes the reason why the pod is pending into its status and an event."""
        unscheduled, condition = self._unscheduled.get(key), self._condition_to_write(key)
        self._queued_conditions.discard(key)
        if unscheduled is None or condition is None:
            return
        conditions = _conditions(condition, unscheduled.view, format_rfc3339(int(self._clock())))
        change = {
            "metadata": {"resourceVersion": unscheduled.view.version},
            "status": {"conditions": conditions},
        }
        try:
            updated = await self._store.patch(PODS, *key, MergePatch(change), subresource="status")
        except LauncherError as error:
            log.info("PodScheduled condition not written", extra={"pod": key, "error": str(error)})
            await self._refresh_pod(key)
            self._enqueue_condition(key)
            return
        self._backoff.reset()
        self._pods.upsert(updated)
        if condition != _GATED:
            self._events.record(updated, [ObjectEvent("FailedScheduling", condition.message, warning=True)])


def _conditions(condition: ScheduledCondition, view: PodView, now: str) -> list[Mapping[str, Any]]:
    """All conditions of the pod, with *condition*."""
    written: list[Mapping[str, Any]] = [
        *view.conditions,
        {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": view.condition_since or now,
        },
    ]
    if condition.exceeds_capacity:
        written.append(
            {
                "type": EXCEEDS_CAPACITY,
                "status": "True",
                "reason": "RequestsExceedNodes",
                "message": condition.message,
                "lastTransitionTime": view.exceeds_since or now,
            }
        )
    return written


def _scheduler_not_found(name: str) -> ObjectEvent:
    message = (
        f'Scheduler "{name}" (spec.schedulerName) does not exist in local mode; '
        f"the pod is scheduled by {SCHEDULER_NAME}."
    )
    return ObjectEvent("SchedulerNotFound", message, warning=True)
