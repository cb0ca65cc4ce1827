"""Event recorder: writes Kubernetes events in the background, without delaying or failing the caller."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from math import inf

from launcher.core.errors import AlreadyExists, LauncherError
from launcher.core.events import ObjectEvent
from launcher.core.timestamps import format_rfc3339
from launcher.store.backoff import wait_or_timeout
from launcher.store.interface import EVENTS, MergePatch, Object, Store
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: The Kubernetes limit on a message.
_MAX_MESSAGE_LENGTH = 1024
#: Events that wait to be written. Beyond that the oldest are dropped.
_MAX_PENDING = 1000
#: Events that may be written before the interval applies.
_BURST = 20
#: Different pending events per object. Beyond that new ones are dropped.
_MAX_PER_OBJECT = 50


@dataclass(slots=True)
class _PendingEvent:
    """An event to write, and the number of occurrences since it was last written."""

    obj: Object
    event: ObjectEvent
    count: int = 1


class EventRecorder:
    """Writes events in the background; a repeated event only increments its count."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        component: str = "framework-launcher",
        *,
        interval: float = 0.0,
    ) -> None:
        """
        *component* is shown in the column From of ``kubectl describe``.

        Bursts are limited: then *interval* seconds pass between two events, to leave the store to other writes.
        """
        self._store, self._clock, self._component, self._interval = store, clock, component, interval
        #: On the event loop's clock: the earliest time of the next event, without the burst.
        self._next_at = -inf
        self._pending: OrderedDict[str, _PendingEvent] = OrderedDict()
        self._per_object: dict[str, int] = {}
        self._wakeup = asyncio.Event()
        self._closed = asyncio.Event()

    def record(self, obj: Object, events: Iterable[ObjectEvent]) -> None:
        """Queues events about *obj*, of which apiVersion, kind and metadata are needed."""
        for event in events:
            name = _name(obj, event)
            if (current := self._pending.get(name)) is not None:
                current.count += 1
                continue
            uid = obj["metadata"]["uid"]
            if self._per_object.get(uid, 0) >= _MAX_PER_OBJECT:
                continue
            if len(self._pending) >= _MAX_PENDING:
                self._count_removed(self._pending.popitem(last=False)[1])
            self._pending[name] = _PendingEvent(obj, event)
            self._per_object[uid] = self._per_object.get(uid, 0) + 1
            self._wakeup.set()

    def close(self) -> None:
        """Makes ``run`` return after all queued events are written."""
        self._closed.set()
        self._wakeup.set()

    async def run(self) -> None:
        """Writes events until ``close``."""
        while not self._closed.is_set():
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._pending:
                await self._wait_for_rate_limit()
                name, pending = self._pending.popitem(last=False)
                self._count_removed(pending)
                try:
                    await self._write(name, pending)
                except LauncherError as error:
                    log.info("event not written", extra={"event": pending.event.reason, "error": str(error)})
                except Exception as error:  # a stored event of the same name may be invalid
                    key = _namespace(pending.obj), name
                    object_errors.record("event-recorder", EVENTS.plural, key, error)

    async def _wait_for_rate_limit(self) -> None:
        """Waits until the rate limit permits another event, or until ``close``."""
        now = asyncio.get_running_loop().time()
        self._next_at = max(self._next_at, now - _BURST * self._interval) + self._interval
        if self._next_at > now:
            await wait_or_timeout(self._closed, self._next_at - now)

    def _count_removed(self, pending: _PendingEvent) -> None:
        uid = pending.obj["metadata"]["uid"]
        self._per_object[uid] -= 1
        if not self._per_object[uid]:
            del self._per_object[uid]

    async def _write(self, name: str, pending: _PendingEvent) -> None:
        namespace = _namespace(pending.obj)
        now = format_rfc3339(int(self._clock()))
        try:
            await self._store.create(EVENTS, _event(name, pending, now, self._component))
        except AlreadyExists:
            current = await self._store.get(EVENTS, namespace, name)
            update = {"count": current.get("count", 0) + pending.count, "lastTimestamp": now}
            await self._store.patch(EVENTS, namespace, name, MergePatch(update))


def _name(obj: Object, event: ObjectEvent) -> str:
    """Returns the same name for the same event of the same object, so that it is found again."""
    identity = f"{obj['metadata']['uid']}/{event.reason}/{event.message}"
    return f"{obj['metadata']['name']}.{blake2b(identity.encode(), digest_size=8).hexdigest()}"


def _namespace(obj: Object) -> str:
    """Returns the namespace of the object's events; ``default`` for cluster-scoped objects."""
    namespace: str = obj["metadata"].get("namespace", "default")
    return namespace


def _event(name: str, pending: _PendingEvent, now: str, component: str) -> Object:
    meta, event = pending.obj["metadata"], pending.event
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": _namespace(pending.obj)},
        "involvedObject": {
            "apiVersion": pending.obj["apiVersion"],
            "kind": pending.obj["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message[:_MAX_MESSAGE_LENGTH],
        "count": pending.count,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": component},
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": "",
    }
