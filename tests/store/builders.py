"""Objects to store, and helpers that read versions and changes."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from launcher.store.interface import FRAMEWORKS, PODS, Change, ChangeType, Object, ResourceKind, Store
from launcher.store.selectors import EVERYTHING, Selector
from tests import builders
from tests.eventually import TIMEOUT_SECONDS

NOW = 1_700_000_000.0


def a_framework(name: str = "mnist", namespace: str = "default", **metadata: Any) -> Object:
    """A valid Framework with one role, in a namespace."""
    return builders.a_framework(name=name, metadata={"namespace": namespace, **metadata})


def an_object(kind: ResourceKind, name: str, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "default"} if kind.namespaced else {"name": name}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def with_(obj: Object, **fields: Any) -> Object:
    """A copy with these fields."""
    return {**obj, **fields}


def with_metadata(obj: Object, **fields: Any) -> Object:
    """A copy with these fields of its metadata; None removes one."""
    metadata = {key: value for key, value in (obj["metadata"] | fields).items() if value is not None}
    return {**obj, "metadata": metadata}


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def uids() -> Callable[[], str]:
    """A source of consecutive uids."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


async def current_version(store: Store, kind: ResourceKind = FRAMEWORKS) -> int:
    """The current version of the store."""
    return (await store.list(kind)).version


async def next_changes(watch: AsyncIterator[Change], count: int) -> list[Change]:
    """The next *count* changes."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return [await anext(watch) for _ in range(count)]


async def changes_since(
    store: Store, kind: ResourceKind, since: int, where: Selector = EVERYTHING, namespace: str | None = None
) -> list[tuple[ChangeType, str]]:
    """Returns a summary of all changes from *since* to now."""
    last = a_framework("the-end", "default") if kind == FRAMEWORKS else builders.a_pod("the-end")
    # A last change that every watcher receives.
    last["metadata"]["namespace"] = namespace or "default"
    last["metadata"]["labels"] = dict(where.label_values())
    await store.create(kind, last)
    received: list[tuple[ChangeType, str]] = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        async for change in store.watch(kind, namespace, where, since=since):
            if change.object["metadata"]["name"] == "the-end":
                return received
            received.append((change.type, change.object["metadata"]["name"]))
    raise AssertionError("the watch ended")


async def a_bound_pod(store: Store, **spec: Any) -> Object:
    """Creates a pod that is bound to a node."""
    return await store.create(PODS, builders.a_pod(nodeName="node-1", **spec))
