"""Watches that survive interruptions: after each one, a new list shows what has changed meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from launcher.cli.client.api_path import FRAMEWORKS, ApiPath
from launcher.cli.client.async_client import AsyncApiClient
from launcher.cli.errors import print_error
from launcher.core.errors import Expired, Unavailable
from launcher.core.names import PodIdentityKey

Json = dict[str, Any]

#: The delays between attempts to reach the server: the first and the longest.
_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.2, 5.0


def pod_selector(framework: str) -> str:
    """The label selector of the Framework's pods."""
    return f"{PodIdentityKey.FRAMEWORK_NAME}={framework}"


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """An object as it is now, or as it was before its deletion."""

    object: Json
    deleted: bool = False


async def watch_objects(
    api: AsyncApiClient, resource: ApiPath, *, labels: str = "", fields: str = ""
) -> AsyncGenerator[ObservedObject | None]:
    """
    Yields every object that matches, then each change of one; None after each complete list.

    A server that cannot be reached at first raises Unavailable; later, the watch reconnects to it.
    """
    known: dict[str, Json] = {}
    reconnect = _Reconnect()
    reached = False
    while True:
        try:
            items, version = await api.list(resource, labels=labels, fields=fields)
            reconnect.succeeded(api)
            reached = True
            for change in _differences(known, items):
                yield change
            yield None
            async with aclosing(_watch_from(api, resource, version, labels, fields)) as changes:
                async for change in changes:
                    _record(known, change)
                    yield change
        except Expired:
            await reconnect.wait()
        except Unavailable:
            if not reached:
                raise
            reconnect.failed(api)
            await reconnect.wait()


async def watch_framework(
    api: AsyncApiClient, name: str, resource: ApiPath = FRAMEWORKS
) -> AsyncGenerator[Json | None]:
    """Yields the object of that name, now and after each change; None, as the last, once it no longer exists."""
    exists = False
    async with aclosing(watch_objects(api, resource, fields=f"metadata.name={name}")) as changes:
        async for change in changes:
            if (change is None and not exists) or (change is not None and change.deleted):
                # A new object of the same name is another object.
                yield None
                return
            if change is not None:
                exists = True
                yield change.object


async def _watch_from(
    api: AsyncApiClient, resource: ApiPath, version: str, labels: str, fields: str
) -> AsyncGenerator[ObservedObject]:
    """Yields every change after *version*, over as many streams as necessary."""
    reconnect = _Reconnect()
    while True:
        is_empty = True
        async with aclosing(api.watch(resource, version, labels=labels, fields=fields)) as events:
            async for event in events:
                is_empty = False
                version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    yield ObservedObject(event.object, deleted=event.type == "DELETED")
        if is_empty:
            await reconnect.wait()


def _differences(known: dict[str, Json], items: Sequence[Json]) -> Iterator[ObservedObject]:
    """The changes from the known objects to *items*, deletions first. Updates *known*."""
    current = {item["metadata"]["uid"]: item for item in items}
    for uid in known.keys() - current.keys():
        yield ObservedObject(known.pop(uid), deleted=True)
    for uid, item in current.items():
        before = known.get(uid)
        if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            known[uid] = item
            yield ObservedObject(item)


def _record(known: dict[str, Json], change: ObservedObject) -> None:
    uid = change.object["metadata"]["uid"]
    if change.deleted:
        known.pop(uid, None)
    else:
        known[uid] = change.object


class _Reconnect:
    """Waits longer after each failure, and prints when the connection is lost and when it is back."""

    def __init__(self) -> None:
        self._delay = _FIRST_DELAY_SECONDS
        self._reported = False

    def failed(self, api: AsyncApiClient) -> None:
        if not self._reported:
            print_error(f"connection to {api.url} lost, retrying")
        self._reported = True

    def succeeded(self, api: AsyncApiClient) -> None:
        if self._reported:
            print_error(f"reconnected to {api.url}")
        self._reported, self._delay = False, _FIRST_DELAY_SECONDS

    async def wait(self) -> None:
        await asyncio.sleep(self._delay)
        self._delay = min(2 * self._delay, _MAX_DELAY_SECONDS)
