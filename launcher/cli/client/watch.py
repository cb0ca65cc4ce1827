"""Objects as they change, through every interruption: what is lost on the way is made good by a new list."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from launcher.cli.client.api_client import FRAMEWORKS, ApiClient, ApiPath
from launcher.cli.errors import print_error
from launcher.core.errors import Expired, Unavailable
from launcher.core.names import PodIdentityKey

Json = dict[str, Any]

#: Seconds between tries to reach a server that is away: the first pause, and the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


def pods_of(framework: str) -> str:
    """The label selector of its pods."""
    return f"{PodIdentityKey.FRAMEWORK_NAME}={framework}"


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """An object as it is now, or as it last was before it was gone."""

    object: Json
    gone: bool = False


async def watch_objects(
    api: ApiClient, resource: ApiPath, *, labels: str = "", fields: str = ""
) -> AsyncGenerator[ObservedObject | None]:
    """
    Every object that matches, then whenever one has changed or is gone; None whenever all of them have been told.

    A server that cannot be reached at first raises Unavailable; one that goes away later is waited for.
    """
    known: dict[str, Json] = {}
    pauses = _Pauses()
    reached = False
    while True:
        try:
            items, version = await api.list(resource, labels=labels, fields=fields)
            pauses.over(api)
            reached = True
            for seen in _difference(known, items):
                yield seen
            yield None
            async with aclosing(_watched(api, resource, version, labels, fields)) as watched:
                async for seen in watched:
                    _note(known, seen)
                    yield seen
        except Expired:
            await pauses.next()
        except Unavailable:
            if not reached:
                raise
            pauses.announce(api)
            await pauses.next()


async def watch_framework(
    api: ApiClient, name: str, resource: ApiPath = FRAMEWORKS
) -> AsyncGenerator[Json | None]:
    """The object of that name, now and whenever it changes; None, as the last, once it is no longer there."""
    there = False
    async with aclosing(watch_objects(api, resource, fields=f"metadata.name={name}")) as seen:
        async for each in seen:
            if (each is None and not there) or (each is not None and each.gone):
                # Another one of the same name, made since, is not the one that was asked about.
                yield None
                return
            if each is not None:
                there = True
                yield each.object


async def _watched(
    api: ApiClient, resource: ApiPath, version: str, labels: str, fields: str
) -> AsyncGenerator[ObservedObject]:
    """Every change after *version*, over as many streams as it takes."""
    pauses = _Pauses()
    while True:
        silent = True
        async with aclosing(api.watch(resource, version, labels=labels, fields=fields)) as stream:
            async for change in stream:
                silent = False
                version = change.object["metadata"]["resourceVersion"]
                if change.type != "BOOKMARK":
                    yield ObservedObject(change.object, gone=change.type == "DELETED")
        if silent:
            await pauses.next()


def _difference(known: dict[str, Json], items: Sequence[Json]) -> Iterator[ObservedObject]:
    """What has become of the known objects, which are then those of *items*; first those that are gone."""
    there = {item["metadata"]["uid"]: item for item in items}
    for uid in known.keys() - there.keys():
        yield ObservedObject(known.pop(uid), gone=True)
    for uid, item in there.items():
        before = known.get(uid)
        if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            known[uid] = item
            yield ObservedObject(item)


def _note(known: dict[str, Json], seen: ObservedObject) -> None:
    uid = seen.object["metadata"]["uid"]
    if seen.gone:
        known.pop(uid, None)
    else:
        known[uid] = seen.object


class _Pauses:
    """Waits longer each time, and says once that it waits."""

    def __init__(self) -> None:
        self._next = _FIRST_PAUSE
        self._announced = False

    def announce(self, api: ApiClient) -> None:
        if not self._announced:
            print_error(f"{api.url} does not answer any more; waiting until it does")
        self._announced = True

    def over(self, api: ApiClient) -> None:
        if self._announced:
            print_error(f"{api.url} answers again")
        self._announced, self._next = False, _FIRST_PAUSE

    async def next(self) -> None:
        await asyncio.sleep(self._next)
        self._next = min(2 * self._next, _LONGEST_PAUSE)
