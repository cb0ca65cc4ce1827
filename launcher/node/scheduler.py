"""
The scheduler of local mode: gives pods their nodes, and tells those that must wait why.

It hears of pods and nodes, lets the ``Placer`` decide, and writes what was decided, many pods at a time. A pod that was
given a node counts as being there before that is written; where a write fails, the pod is read, and waits again if it
did not get there. All that is known can be read from the store, so nothing is lost with the program.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from launcher.core.errors import LauncherError, NotFound
from launcher.core.planning.actions import ObjectEvent
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.timestamps import format_rfc3339
from launcher.scheduling.cluster_state import facts_of
from launcher.scheduling.engine import COMPONENT, Binding, SchedulingEngine
from launcher.scheduling.pod_info import (
    SCHEDULED,
    SCHEDULER_NAME,
    PodView,
    ScheduledCondition,
    gang_of,
    guest_of,
    is_schedulable,
    view_of,
)
from launcher.store.backoff import ExponentialBackoff
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, Informer
from launcher.store.interface import NODES, PODS, Key, MergePatch, Object, Store
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: Writes under way at the same time; the store commits them together.
_WRITES: Final = 256
#: Pods decided on before others get their turn.
_AT_ONCE: Final = 64
#: Seconds after which pods that wait are told what has changed about the reason.
_TELL_AGAIN: Final = 60.0
_GATED: Final = ScheduledCondition(
    "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """One pod that has no node yet."""

    view: PodView
    #: Why it is not even tried; None for a pod that waits in line.
    held: ScheduledCondition | None = None


class Scheduler:
    """Gives pods their nodes until cancelled."""

    def __init__(
        self, store: Store, *, events: EventRecorder, clock: Callable[[], float], patience: float = 60.0
    ) -> None:
        """Room is kept for a pod that has waited *patience* seconds. Who runs *events* is the caller's choice."""
        self._store, self._events, self._clock = store, events, clock
        self._placer = SchedulingEngine(patience)
        self._known: dict[Key, _Known] = {}
        self._nodes = Informer(store, NODES, _Nodes(self), component=COMPONENT)
        self._pods = Informer(
            store, PODS, EventHandlerFuncs(self.pod_seen, self.pod_gone), component=COMPONENT
        )
        self._news = asyncio.Event()
        self._tell_at = 0.0
        self._jobs: asyncio.Queue[Binding | Key] = asyncio.Queue()
        #: Whether the writers have little enough to do for more to be decided.
        self._idle = asyncio.Event()
        #: Pods about which something is to be told, and is not yet.
        self._telling: set[Key] = set()
        self._pauses = ExponentialBackoff(first=0.05, most=10.0)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            # First, so that nobody is told that there are none.
            await self._nodes.synced.wait()
            group.create_task(self._pods.run())
            # Before all pods are known, a node may look emptier than it is.
            await self._pods.synced.wait()
            for _ in range(_WRITES):
                group.create_task(self._write())
            while True:
                await self._decide()
                await self._wait()

    async def _wait(self) -> None:
        """Return when something has changed, or the time has come to look again."""
        now = self._clock()
        next_look = self._placer.next_look(now)
        seconds = min(next_look - now, _TELL_AGAIN) if next_look is not None else _TELL_AGAIN
        try:
            async with asyncio.timeout(max(seconds, 0.01)):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _decide(self) -> None:
        while found := self._placer.decide(self._clock(), _AT_ONCE):
            for binding in found:
                self._jobs.put_nowait(binding)
            self._idle.clear()
            await self._idle.wait()
        for key in list(self._placer.untold()):
            self._tell(key)
        if (now := self._clock()) >= self._tell_at:
            self._tell_at = now + _TELL_AGAIN
            for key in list(self._placer.waiting()):
                self._tell(key)

    def _tell(self, key: Key) -> None:
        """Have the pod told why it has no node, unless it was."""
        if key not in self._telling and self._to_tell(key) is not None:
            self._telling.add(key)
            self._jobs.put_nowait(key)

    # What the informers tell.

    def node_seen(self, node: Object) -> None:
        self._placer.set_node(facts_of(node))
        self._news.set()

    def node_gone(self, name: str) -> None:
        self._placer.drop_node(name)
        self._news.set()

    def pod_seen(self, key: Key, pod: Object) -> None:
        if has_terminated(pod):
            self._see_over(key, pod)
        elif (node := pod["spec"].get("nodeName")) is not None:
            self._see_placed(key, pod, node)
        elif is_schedulable(pod):
            self._see_waiting(key, pod)
        else:
            self.pod_gone(key)
        self._news.set()

    def _see_over(self, key: Key, pod: Object) -> None:
        self._known.pop(key, None)
        try:
            gang = gang_of(pod) if pod["spec"].get("nodeName") else None
        except ValueError:
            gang = None  # it never was one of a gang
        self._placer.end(key, gang)

    def _see_placed(self, key: Key, pod: Object, node: str) -> None:
        self._known.pop(key, None)
        if not self._placer.knows(pod, node):
            try:
                self._placer.pod_bound(guest_of(pod), node)
            except ValueError as error:
                log.warning("pod on a node cannot be counted", extra={"pod": key, "why": str(error)})
                self._placer.leave(key)

    def _see_waiting(self, key: Key, pod: Object) -> None:
        before, view = self._known.get(key), view_of(pod)
        if view.missing_scheduler and (before is None or before.view.uid != view.uid):
            self._events.record(pod, [_scheduler_not_found(view.missing_scheduler)])
        held, guest = _GATED if view.gated else None, None
        try:
            guest = guest_of(pod)
        except ValueError as error:
            held = ScheduledCondition("Unschedulable", f"the pod cannot be read: {error}")
        self._known[key] = _Known(view, held)
        if held is not None or guest is None:
            self._placer.leave(key)
            self._tell(key)
            return
        # It has waited from the moment at which it could go, if that was seen.
        released = before is not None and before.view.uid == view.uid and before.held is not None
        self._placer.add_pending(guest, view.priority, self._clock() if released else view.created)

    def pod_gone(self, key: Key) -> None:
        self._known.pop(key, None)
        self._placer.leave(key)
        self._news.set()

    # What is written.

    async def _write(self) -> None:
        while True:
            job = await self._jobs.get()
            if self._jobs.qsize() < _WRITES:
                self._idle.set()
            key = job.guest.key if isinstance(job, Binding) else job
            try:
                await (self._bind(job) if isinstance(job, Binding) else self._write_answer(job))
            except Exception as error:  # the pod is left alone until it changes; others get their nodes
                object_errors.record(COMPONENT, PODS.plural, key, error)
                self._telling.discard(key)
                self.pod_gone(key)

    async def _bind(self, binding: Binding) -> None:
        guest, (namespace, name) = binding.guest, binding.guest.key
        known = self._known.get(guest.key)
        if known is None or known.view.uid != guest.uid:
            self._placer.forget_assumed(guest)
            return
        change = {
            "metadata": {"uid": guest.uid, "resourceVersion": known.view.version},
            "spec": {"nodeName": binding.node},
        }
        try:
            answer = await self._store.patch(PODS, namespace, name, MergePatch(change))
        except LauncherError as error:
            log.info("pod not bound", extra={"pod": guest.key, "node": binding.node, "why": str(error)})
            await self._read_again(guest.key)
            self._placer.forget_assumed(guest)
            self._news.set()
            return
        self._pauses.reset()
        self._pods.upsert(answer)
        notice = ObjectEvent("Scheduled", f"Successfully assigned {namespace}/{name} to {binding.node}")
        self._events.record(answer, [notice])

    async def _read_again(self, key: Key) -> None:
        """Know the pod as it is in the store now, however long it takes to be told."""
        while True:
            await asyncio.sleep(self._pauses.next_delay())
            try:
                self._pods.upsert(await self._store.get(PODS, *key))
            except NotFound:
                return  # the watch will tell, and whoever comes next under that name
            except LauncherError as error:
                log.warning("pod not read", extra={"pod": key, "why": str(error)})
            else:
                return

    def _to_tell(self, key: Key) -> ScheduledCondition | None:
        """What the pod's condition should say and does not."""
        known = self._known.get(key)
        if known is None:
            return None
        told = known.held
        if told is None:
            answer = self._placer.unschedulable_reason(key)
            told = ScheduledCondition("Unschedulable", answer) if answer is not None else None
        return told if told != known.view.told else None

    async def _write_answer(self, key: Key) -> None:
        """Why there is no node for the pod, into its status and an event."""
        known, told = self._known.get(key), self._to_tell(key)
        self._telling.discard(key)
        if known is None or told is None:
            return
        since = known.view.told_since or format_rfc3339(int(self._clock()))
        condition = {
            "type": SCHEDULED,
            "status": "False",
            "reason": told.reason,
            "message": told.message,
            "lastTransitionTime": since,
        }
        change = {
            "metadata": {"resourceVersion": known.view.version},
            "status": {"conditions": [*known.view.conditions, condition]},
        }
        try:
            answer = await self._store.patch(PODS, *key, MergePatch(change), subresource="status")
        except LauncherError as error:
            log.info("pod not told", extra={"pod": key, "why": str(error)})
            await self._read_again(key)
            self._tell(key)
            return
        self._pauses.reset()
        self._pods.upsert(answer)
        if told != _GATED:
            self._events.record(answer, [ObjectEvent("FailedScheduling", told.message, warning=True)])


def _scheduler_not_found(name: str) -> ObjectEvent:
    message = (
        f'spec.schedulerName "{name}" names a scheduler that does not exist in local mode: '
        f"the pod is placed by {SCHEDULER_NAME}"
    )
    return ObjectEvent("SchedulerNotFound", message, warning=True)


class _Nodes:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def on_upsert(self, _key: Key, obj: Object) -> None:
        self._scheduler.node_seen(obj)

    def on_delete(self, key: Key) -> None:
        self._scheduler.node_gone(key[1])
