"""What is swept out as a whole: namespaces that are deleted, and events that are old."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from launcher.core.errors import Conflict, LauncherError, NotFound
from launcher.core.timestamps import parse_rfc3339
from launcher.job_kinds.job_kind import FOREIGN
from launcher.node.garbage_collector.workers import Chores
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
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

log = logging.getLogger(__name__)

#: Jobs, then Frameworks first: what they own would come back. Events last: the others' ends are told by some.
_CONTENT: Final = (
    *(each.kind for each in FOREIGN),
    FRAMEWORKS,
    PODS,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    LEASES,
    EVENTS,
)
_PAGE: Final = 500
#: Seconds after which a namespace that still holds something is looked at again.
_LOOK_AGAIN: Final = 1.0
#: How many times within their life old events are looked for.
_SWEEPS: Final = 12


class NamespaceSweeper:
    """Empties namespaces that are being deleted, then lets them go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chores: Chores[str] = Chores(self._empty, NAMESPACES.plural, workers=4)

    async def run(self) -> None:
        await self._chores.run()

    def on_upsert(self, key: Key, obj: Object) -> None:
        if "deletionTimestamp" in obj["metadata"]:
            self._chores.add(key[1])

    def on_delete(self, key: Key) -> None:
        """Nothing is left to do for it."""

    async def _empty(self, name: str) -> None:
        try:
            namespace = await self._store.get(NAMESPACES, "", name)
        except NotFound:
            return
        if "deletionTimestamp" not in namespace["metadata"]:
            return  # another one of the same name
        left = sum([await self._delete_all(kind, name) for kind in _CONTENT])
        if left:
            self._chores.later(name, _LOOK_AGAIN)
            return
        await self._let_go(namespace)

    async def _delete_all(self, kind: ResourceKind, namespace: str) -> int:
        """Have all of that kind deleted; how many there were."""
        count, token = 0, None
        while True:
            page = await self._store.list(kind, namespace, limit=_PAGE, token=token)
            for obj in page.items:
                meta = obj["metadata"]
                if "deletionTimestamp" not in meta:
                    with suppress(NotFound):
                        await self._store.delete(
                            kind, namespace, meta["name"], DeleteOptions(uid=meta["uid"])
                        )
            count, token = count + len(page.items), page.continue_token
            if token is None:
                return count

    async def _let_go(self, namespace: Object) -> None:
        meta = namespace["metadata"]
        left = [name for name in meta.get("finalizers") or () if name != NAMESPACE_FINALIZER]
        change = {"resourceVersion": meta["resourceVersion"], "finalizers": left or None}
        with suppress(NotFound):
            await self._store.patch(NAMESPACES, "", meta["name"], MergePatch({"metadata": change}))


async def old_events(store: Store, clock: Callable[[], float], kept: float) -> None:
    """Delete events *kept* seconds after they were last written, until cancelled."""
    while True:
        try:
            await _sweep_events(store, clock() - kept)
        except LauncherError as error:
            log.warning("old events not deleted", extra={"why": str(error)})
        await asyncio.sleep(kept / _SWEEPS)


async def _sweep_events(store: Store, before: float) -> None:
    token = None
    while True:
        page = await store.list(EVENTS, limit=_PAGE, token=token)
        for event in page.items:
            if _written(event) < before:
                meta = event["metadata"]
                # Only as it was read: it may just have happened again.
                how = DeleteOptions(uid=meta["uid"], version=version_of(event))
                with suppress(NotFound, Conflict):
                    await store.delete(EVENTS, meta["namespace"], meta["name"], how)
        if (token := page.continue_token) is None:
            return


def _written(event: Object) -> float:
    """When it last happened, as far as it says; else when it was made."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    moments = []
    for text in times:
        with suppress(ValueError, TypeError):
            moments.append(parse_rfc3339(text))
    return max(moments, default=0.0)
