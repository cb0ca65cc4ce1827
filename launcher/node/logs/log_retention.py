"""
Removes logs with their pod or, if a Framework owns the pod, with the Framework.

Logs on disk are identified by namespace and pod name. Of pods that were deleted before this launcher started only the
name is known, and a pod of a Framework is named after it: ``<framework>-<role>-<index>``.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from launcher.core.errors import NotFound, Unavailable
from launcher.core.names import KIND
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.logs.log_budget import framework_name
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import FRAMEWORKS, Key, Object, Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FrameworkOwner:
    """The Framework that owns a pod."""

    name: str
    uid: str


def owner_of(pod: Object) -> FrameworkOwner | None:
    """The Framework that owns the pod, if one does."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("kind") == KIND:
            return FrameworkOwner(reference["name"], reference["uid"])
    return None


class LogRetention:
    """Removes the logs of deleted pods and Frameworks. An event handler for Frameworks."""

    def __init__(self, store: Store, logs: ContainerLogs, pod_exists: Callable[[Key], bool]) -> None:
        """*pod_exists* returns whether a pod of that namespace and name exists."""
        self._store, self._logs, self._pod_exists = store, logs, pod_exists
        self._frameworks: dict[Key, str] = {}
        #: By the uid of a Framework, its deleted pods, whose logs are retained.
        self._retained: dict[str, set[Key]] = {}
        self._deleted: asyncio.Queue[tuple[Key, FrameworkOwner | None]] = asyncio.Queue()

    def on_upsert(self, key: Key, obj: Object) -> None:
        """Handles a Framework that was created or changed."""
        uid = obj["metadata"]["uid"]
        if self._frameworks.get(key, uid) != uid:
            self.on_delete(key)
        self._frameworks[key] = uid

    def on_delete(self, key: Key) -> None:
        """Handles a deleted Framework."""
        uid = self._frameworks.pop(key, "")
        for pod in self._retained.pop(uid, ()):
            self._deleted.put_nowait((pod, None))

    def pod_deleted(self, key: Key, owner: FrameworkOwner | None) -> None:
        """Handles a deleted pod."""
        self._deleted.put_nowait((key, owner))

    def check_stored_logs(self) -> None:
        """Enqueues all pods with logs on disk, once the existing pods and Frameworks are known."""
        for key in self._logs.pods():
            namespace, name = key
            framework = framework_name(name)
            uid = self._frameworks.get((namespace, framework))
            self._deleted.put_nowait((key, FrameworkOwner(framework, uid) if uid else None))

    async def run(self) -> None:
        """Removes the logs of deleted pods one after the other, until cancelled."""
        while True:
            key, owner = await self._deleted.get()
            # An existing pod of that name has its logs in the same directory, which is removed with that pod.
            if self._pod_exists(key):
                continue
            if owner is not None and await self._exists(key[0], owner):
                self._retained.setdefault(owner.uid, set()).add(key)
            else:
                await asyncio.to_thread(self._remove, key)

    async def _exists(self, namespace: str, owner: FrameworkOwner) -> bool:
        """Whether the Framework with that uid exists; it is recorded, so that its deletion is handled."""
        backoff = ExponentialBackoff(initial=0.2, maximum=10.0)
        while True:
            try:
                framework = await self._store.get(FRAMEWORKS, namespace, owner.name)
            except NotFound:
                return False
            except Unavailable:
                await asyncio.sleep(backoff.next_delay())
                continue
            if framework["metadata"]["uid"] != owner.uid:
                return False
            self._frameworks.setdefault((namespace, owner.name), owner.uid)
            return True

    def _remove(self, key: Key) -> None:
        try:
            self._logs.remove(*key)
        except OSError as error:
            log.warning("logs not removed", extra={"pod": key, "error": str(error)})
