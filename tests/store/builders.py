"""Objects to store, whole but for what a test names, and ways to look at what became of them."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from launcher.store.interface import FRAMEWORKS, PODS, Change, ChangeType, Object, ResourceKind, Store
from launcher.store.selectors import EVERYTHING, Selector

#: Longer than anything here takes; whoever waits that long waits in vain.
PATIENCE = 20.0
NOW = 1_700_000_000.0


def a_framework(name: str = "mnist", namespace: str = "default", **metadata: Any) -> Object:
    return {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": "Framework",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2}]},
    }


def a_pod(name: str = "mnist-worker-0", namespace: str = "default", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


def an_object(kind: ResourceKind, name: str, **parts: Any) -> Object:
    metadata = {"name": name, "namespace": "default"} if kind.namespaced else {"name": name}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts}


def with_(obj: Object, **parts: Any) -> Object:
    """A copy with these parts."""
    return {**obj, **parts}


def with_metadata(obj: Object, **fields: Any) -> Object:
    """A copy with these fields of its metadata; None leaves one out."""
    metadata = {key: value for key, value in (obj["metadata"] | fields).items() if value is not None}
    return {**obj, "metadata": metadata}


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def uids() -> Callable[[], str]:
    """Uids one after another."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


async def now_in(store: Store, kind: ResourceKind = FRAMEWORKS) -> int:
    """The version that the store has reached."""
    return (await store.list(kind)).version


async def changes(watch: AsyncIterator[Change], count: int) -> list[Change]:
    """The next so many changes."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(watch) for _ in range(count)]


async def changes_until(
    store: Store, kind: ResourceKind, since: int, where: Selector = EVERYTHING, namespace: str | None = None
) -> list[tuple[ChangeType, str]]:
    """What is told from *since* to now, in short."""
    end = a_framework("the-end", "default") if kind == FRAMEWORKS else a_pod("the-end")
    # A last change that every watcher sees, so that nobody has to guess how long to wait for silence.
    end["metadata"]["namespace"] = namespace or "default"
    end["metadata"]["labels"] = dict(where.label_values())
    await store.create(kind, end)
    told: list[tuple[ChangeType, str]] = []
    async with asyncio.timeout(PATIENCE):
        async for change in store.watch(kind, namespace, where, since=since):
            if change.object["metadata"]["name"] == "the-end":
                return told
            told.append((change.happened, change.object["metadata"]["name"]))
    raise AssertionError("the watch ended")


async def a_bound_pod(store: Store, **spec: Any) -> Object:
    """A pod on a node, stored."""
    return await store.create(PODS, a_pod(nodeName="node-1", **spec))
