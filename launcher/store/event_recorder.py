"""Events: what happened to an object, for people. Telling them never holds up or fails the work itself."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from math import inf

from launcher.core.errors import AlreadyExists, LauncherError
from launcher.core.planning.actions import ObjectEvent
from launcher.core.timestamps import format_rfc3339
from launcher.store.interface import EVENTS, MergePatch, Object, Store
from launcher.store.object_errors import object_errors

log = logging.getLogger(__name__)

#: Kubernetes' limit on a message.
_LONGEST = 1024
#: Events that wait to be written; beyond that the oldest are dropped, since the newest tell more.
_MOST_WAITING = 1000
#: Events that may come at once before pauses are kept.
_AT_ONCE = 20
#: How many different events of one object are written in a row before the rest is only counted.
_MOST_PER_OBJECT = 50


@dataclass(slots=True)
class _Waiting:
    """One event to write, and how often it has happened since it was last written."""

    obj: Object
    notice: ObjectEvent
    count: int = 1


class EventRecorder:
    """Writes events in the background; the same event again only raises its count."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        component: str = "framework-launcher",
        *,
        pause: float = 0.0,
    ) -> None:
        """
        *component* is who tells, as ``kubectl describe`` shows it in its column From.

        When there is much to tell, *pause* seconds pass from one event to the next: the store has better things to do.
        """
        self._store, self._clock, self._component, self._pause = store, clock, component, pause
        #: On the loop's clock: when the next event would come if none had come at once.
        self._due = -inf
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._per_object: dict[str, int] = {}
        self._something = asyncio.Event()
        self._closed = asyncio.Event()

    def record(self, about: Object, notices: Iterable[ObjectEvent]) -> None:
        """Have these written; *about* is the object, or at least its apiVersion, kind and metadata."""
        for notice in notices:
            name = _name(about, notice)
            if (known := self._waiting.get(name)) is not None:
                known.count += 1
                continue
            uid = about["metadata"]["uid"]
            if self._per_object.get(uid, 0) >= _MOST_PER_OBJECT:
                continue
            if len(self._waiting) >= _MOST_WAITING:
                self._taken(self._waiting.popitem(last=False)[1])
            self._waiting[name] = _Waiting(about, notice)
            self._per_object[uid] = self._per_object.get(uid, 0) + 1
            self._something.set()

    def close(self) -> None:
        """Let ``run`` return once everything told so far is written."""
        self._closed.set()
        self._something.set()

    async def run(self) -> None:
        """Write until ``close``."""
        while not self._closed.is_set():
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                await self._rest()
                name, waiting = self._waiting.popitem(last=False)
                self._taken(waiting)
                try:
                    await self._write(name, waiting)
                except LauncherError as error:
                    log.info("event not written", extra={"event": waiting.notice.reason, "why": str(error)})
                except Exception as error:  # an event that is stored already may be unreadable
                    key = _namespace(waiting.obj), name
                    object_errors.record("event-recorder", EVENTS.plural, key, error)

    async def _rest(self) -> None:
        """Return when the next event may be written: after its pause, or when there is no more time for pauses."""
        now = asyncio.get_running_loop().time()
        self._due = max(self._due, now - _AT_ONCE * self._pause) + self._pause
        if self._due > now:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._due - now):
                    await self._closed.wait()

    def _taken(self, waiting: _Waiting) -> None:
        uid = waiting.obj["metadata"]["uid"]
        self._per_object[uid] -= 1
        if not self._per_object[uid]:
            del self._per_object[uid]

    async def _write(self, name: str, waiting: _Waiting) -> None:
        namespace = _namespace(waiting.obj)
        now = format_rfc3339(int(self._clock()))
        try:
            await self._store.create(EVENTS, _event(name, waiting, now, self._component))
        except AlreadyExists:
            known = await self._store.get(EVENTS, namespace, name)
            again = {"count": known.get("count", 0) + waiting.count, "lastTimestamp": now}
            await self._store.patch(EVENTS, namespace, name, MergePatch(again))


def _name(about: Object, notice: ObjectEvent) -> str:
    """The same for the same event of the same object, so that it is found again."""
    what = f"{about['metadata']['uid']}/{notice.reason}/{notice.message}"
    return f"{about['metadata']['name']}.{blake2b(what.encode(), digest_size=8).hexdigest()}"


def _namespace(about: Object) -> str:
    """Where its events stand; those of an object without a namespace stand in ``default``."""
    namespace: str = about["metadata"].get("namespace", "default")
    return namespace


def _event(name: str, waiting: _Waiting, now: str, component: str) -> Object:
    meta, notice = waiting.obj["metadata"], waiting.notice
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": _namespace(waiting.obj)},
        "involvedObject": {
            "apiVersion": waiting.obj["apiVersion"],
            "kind": waiting.obj["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "type": "Warning" if notice.warning else "Normal",
        "reason": notice.reason,
        "message": notice.message[:_LONGEST],
        "count": waiting.count,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": component},
        "eventTime": None,
        "reportingComponent": component,
        "reportingInstance": "",
    }
