"""Recent failures per node: ``GET …/nodefailures``, from the attempts that Frameworks and FrameworkAttempts keep."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from aiohttp import web

from launcher.api.http.content_negotiation import Representation, negotiate_format
from launcher.api.http.responses import respond
from launcher.core.errors import Unavailable
from launcher.core.json_access import as_object, text
from launcher.core.names import PodIdentityKey
from launcher.core.node_failures import NodeFailure, node_failures
from launcher.core.timestamps import format_rfc3339
from launcher.store.informer import EventHandlerFuncs, SharedInformers
from launcher.store.interface import FRAMEWORK_ATTEMPTS, FRAMEWORKS, Key, Object, ResourceKind, Store

PATH = f"/apis/{FRAMEWORKS.group}/{FRAMEWORKS.version}/nodefailures"

#: Older failures are not reported.
SINCE_SECONDS = 24 * 3600
#: Failures of one node that are reported in detail.
MAX_LATEST = 10
#: The objects are observed until there was no request for so long.
_IDLE_SECONDS = 600.0
#: A request waits so long for the first list of the objects.
_SYNC_SECONDS = 20.0
_OBJECT_ONLY = frozenset({Representation.OBJECT})

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _FrameworkFailure:
    """A failure, and the Framework of its task."""

    namespace: str
    framework: str
    failure: NodeFailure


class NodeFailureIndex:
    """The failed attempts of all Frameworks. The objects are listed and watched only while there are requests."""

    def __init__(self, store: Store, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._store, self._idle_seconds = store, idle_seconds
        self._requested = asyncio.Event()
        #: Set while all objects are known.
        self.synced = asyncio.Event()
        self._failures: dict[tuple[ResourceKind, Key], tuple[_FrameworkFailure, ...]] = {}

    async def run(self) -> None:
        """Observes the objects whenever they are requested, until cancelled."""
        while True:
            await self._requested.wait()
            await self._observe()

    async def failures(self) -> Iterator[_FrameworkFailure]:
        """Returns all failures that are kept. Raises Unavailable if the objects cannot be listed in time."""
        self._requested.set()
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                # It may be cleared again before this task continues.
                while not self.synced.is_set():
                    self._requested.set()
                    await self.synced.wait()
        except TimeoutError:
            raise Unavailable("the Frameworks have not been listed yet; try again later") from None
        return (each for failures in self._failures.values() for each in failures)

    async def _observe(self) -> None:
        informers = SharedInformers(self._store)
        synced = [self._add_handler(informers, kind) for kind in (FRAMEWORKS, FRAMEWORK_ATTEMPTS)]
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informers.run())
            for event in synced:
                await event.wait()
            self.synced.set()
            await self._until_idle()
            self.synced.clear()
            task.cancel()
        self._failures.clear()

    async def _until_idle(self) -> None:
        while self._requested.is_set():
            self._requested.clear()
            try:
                async with asyncio.timeout(self._idle_seconds):
                    await self._requested.wait()
            except TimeoutError:
                return

    def _add_handler(self, informers: SharedInformers, kind: ResourceKind) -> asyncio.Event:
        def upsert(key: Key, obj: Object) -> None:
            if found := tuple(_failures_of(kind, obj)):
                self._failures[kind, key] = found
            else:
                self._failures.pop((kind, key), None)

        def delete(key: Key) -> None:
            self._failures.pop((kind, key), None)

        handler = EventHandlerFuncs(upsert, delete)
        return informers.add_event_handler(kind, handler, component="node-failures").synced


def _failures_of(kind: ResourceKind, obj: Object) -> Iterator[_FrameworkFailure]:
    metadata = obj["metadata"]
    if kind == FRAMEWORKS:
        name, attempt = metadata["name"], as_object(obj.get("status")).get("attemptStatus")
    else:
        name = text(as_object(metadata.get("labels")).get(PodIdentityKey.FRAMEWORK_NAME))
        attempt = obj.get("attemptStatus")
    for failure in node_failures(as_object(attempt)):
        yield _FrameworkFailure(metadata["namespace"], name, failure)


class NodeFailureHandler:
    """Handles ``GET …/nodefailures``. *clock* returns seconds since 1970."""

    def __init__(self, index: NodeFailureIndex, clock: Callable[[], float]) -> None:
        self._index, self._clock = index, clock

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Returns the number of failures of each node in the last day, and the latest of them."""
        response_format = negotiate_format(request, _OBJECT_ONLY)
        earliest = self._clock() - SINCE_SECONDS
        by_node: dict[str, list[_FrameworkFailure]] = defaultdict(list)
        for each in await self._index.failures():
            if each.failure.completion_time >= earliest:
                by_node[each.failure.node].append(each)
        body = {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": "NodeFailures",
            "sinceSeconds": SINCE_SECONDS,
            "items": [_item(node, by_node) for node in sorted(by_node)],
        }
        return await respond(request, response_format, body)


def _item(node: str, by_node: Mapping[str, list[_FrameworkFailure]]) -> Json:
    latest = nlargest(MAX_LATEST, by_node[node], key=lambda each: each.failure.completion_time)
    return {"nodeName": node, "count": len(by_node[node]), "latest": [_entry(each) for each in latest]}


def _entry(each: _FrameworkFailure) -> Json:
    failure = each.failure
    entry = {
        "namespace": each.namespace,
        "framework": each.framework,
        "role": failure.role,
        "index": failure.index,
        "completionTime": format_rfc3339(failure.completion_time),
        "exitCode": failure.exit_code,
        "reason": failure.reason,
    }
    return {name: value for name, value in entry.items() if value is not None}
