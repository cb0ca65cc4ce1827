"""Deletes the content of deleted namespaces, and old events."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from launcher.core.errors import Conflict, LauncherError, NotFound
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.timestamps import parse_rfc3339
from launcher.node.garbage_collector.dependency_graph import COMPONENT
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORK_ATTEMPTS,
    FRAMEWORKS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    ResourceKind,
    Store,
    version_of,
)
from launcher.store.strategy import NAMESPACE_FINALIZER
from launcher.store.work_queue import WorkQueue, retry_on_error, run_workers

log = logging.getLogger(__name__)

#: Frameworks first, because they would recreate what they own. Events last: deletions may record some.
_DELETION_ORDER: Final = (
    FRAMEWORKS,
    FRAMEWORK_ATTEMPTS,
    PODS,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    LEASES,
    EVENTS,
)
_PAGE_SIZE: Final = 500
#: Interval between checks of a namespace that is not empty.
_RECHECK_SECONDS: Final = 1.0
_WORKERS: Final = 4
#: Number of searches for old events within their lifetime.
_SWEEPS_PER_TTL: Final = 12


class NamespaceController:
    """Deletes the content of namespaces that are being deleted, then their finalizer."""

    def __init__(self, store: Store, job_kinds: Sequence[ResourceKind] = ()) -> None:
        """*job_kinds* are the kinds that own Frameworks."""
        self._store = store
        # Jobs first, because they would recreate their Frameworks.
        self._kinds = (*job_kinds, *_DELETION_ORDER)
        self._queue: WorkQueue[str] = WorkQueue("namespace")

    async def run(self) -> None:
        """Deletes the content of deleted namespaces until cancelled."""
        reconcile = retry_on_error(self._queue, self.reconcile, COMPONENT, NAMESPACES.plural)
        await run_workers(self._queue, reconcile, _WORKERS)

    def on_upsert(self, key: Key, obj: Object) -> None:
        if is_deleted(obj):
            self._queue.add(key[1])

    def on_delete(self, key: Key) -> None:
        """Nothing to do."""

    async def reconcile(self, name: str) -> None:
        try:
            namespace = await self._store.get(NAMESPACES, "", name)
        except NotFound:
            return
        if not is_deleted(namespace):
            return  # a new namespace of the same name
        remaining = sum([await self._delete_all(kind, name) for kind in self._kinds])
        if remaining:
            self._queue.add_after(name, _RECHECK_SECONDS)
            return
        await self._remove_finalizer(namespace)

    async def _delete_all(self, kind: ResourceKind, namespace: str) -> int:
        """Deletes all objects of a kind. Returns how many there were."""
        count, continue_token = 0, None
        while True:
            page = await self._store.list(kind, namespace, limit=_PAGE_SIZE, continue_token=continue_token)
            for obj in page.items:
                meta = obj["metadata"]
                if not is_deleted(obj):
                    with suppress(NotFound):
                        await self._store.delete(
                            kind, namespace, meta["name"], DeleteOptions(uid=meta["uid"])
                        )
            count, continue_token = count + len(page.items), page.continue_token
            if continue_token is None:
                return count

    async def _remove_finalizer(self, namespace: Object) -> None:
        meta = namespace["metadata"]
        remaining = [name for name in meta.get("finalizers") or () if name != NAMESPACE_FINALIZER]
        change = {"resourceVersion": meta["resourceVersion"], "finalizers": remaining or None}
        with suppress(NotFound):
            await self._store.patch(NAMESPACES, "", meta["name"], MergePatch({"metadata": change}))


async def delete_old_events(store: Store, clock: Callable[[], float], ttl: float) -> None:
    """Deletes events *ttl* seconds after they were last written, until cancelled."""
    while True:
        try:
            await _sweep_events(store, clock() - ttl)
        except LauncherError as error:
            log.warning("old events not deleted", extra={"error": str(error)})
        await asyncio.sleep(ttl / _SWEEPS_PER_TTL)


async def _sweep_events(store: Store, before: float) -> None:
    continue_token = None
    while True:
        page = await store.list(EVENTS, limit=_PAGE_SIZE, continue_token=continue_token)
        for event in page.items:
            if _last_written(event) < before:
                meta = event["metadata"]
                # Only this version: the event may have occurred again.
                options = DeleteOptions(uid=meta["uid"], version=version_of(event))
                with suppress(NotFound, Conflict):
                    await store.delete(EVENTS, meta["namespace"], meta["name"], options)
        if (continue_token := page.continue_token) is None:
            return


def _last_written(event: Object) -> float:
    """Returns the time of the last occurrence, or of the creation."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    parsed = []
    for text in times:
        with suppress(ValueError, TypeError):
            parsed.append(parse_rfc3339(text))
    return max(parsed, default=0.0)
