"""
How long logs are kept: as long as their pod, or, if a Framework owns the pod, as long as the Framework.

Logs on disk are known by namespace and pod name. Of pods that went before this launcher started only the name is left,
and a pod of a Framework is named after it: ``<framework>-<role>-<index>``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from launcher.core.errors import NotFound, Unavailable
from launcher.core.names import KIND
from launcher.node.agent.dependencies import LogRoom
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


def kept_logs(logs: LogRoom) -> list[Key]:
    """Namespace and name of every pod that has logs on disk."""
    # NAMESPACE/POD/UID/CONTAINER/FILE below the directory of all logs.
    root = logs.path("namespace", "pod", "uid", "container", 0).parents[4]
    return [(path.parent.name, path.name) for path in root.glob("*/*") if path.is_dir()]


class LogRetention:
    """Removes the logs that nobody can ask for any more. A handler of Frameworks' changes."""

    def __init__(self, store: Store, logs: LogRoom, is_there: Callable[[Key], bool]) -> None:
        """*is_there* says whether there is a pod of that name."""
        self._store, self._logs, self._is_there = store, logs, is_there
        self._frameworks: dict[Key, str] = {}
        #: By the uid of a Framework, its pods that are gone and whose logs are kept.
        self._kept: dict[str, set[Key]] = {}
        self._gone: asyncio.Queue[tuple[Key, FrameworkOwner | None]] = asyncio.Queue()

    def on_upsert(self, key: Key, obj: Object) -> None:
        """There is such a Framework."""
        uid = obj["metadata"]["uid"]
        if self._frameworks.get(key, uid) != uid:
            self.on_delete(key)
        self._frameworks[key] = uid

    def on_delete(self, key: Key) -> None:
        """There is no such Framework any more."""
        uid = self._frameworks.pop(key, "")
        for pod in self._kept.pop(uid, ()):
            self._gone.put_nowait((pod, None))

    def pod_gone(self, key: Key, owner: FrameworkOwner | None) -> None:
        """There is no such pod any more."""
        self._gone.put_nowait((key, owner))

    def sweep(self, kept: Iterable[Key]) -> None:
        """See to the logs of those pods, which were found on disk."""
        for key in kept:
            namespace, name = key
            framework = framework_name(name)
            uid = self._frameworks.get((namespace, framework))
            self._gone.put_nowait((key, FrameworkOwner(framework, uid) if uid else None))

    async def run(self) -> None:
        """Remove what has to go, one after the other, until cancelled."""
        while True:
            key, owner = await self._gone.get()
            # A pod of that name which is there now has its logs in the same place; they go when it does.
            if self._is_there(key):
                continue
            if owner is not None and await self._exists(key[0], owner):
                self._kept.setdefault(owner.uid, set()).add(key)
            else:
                await asyncio.to_thread(self._remove, key)

    async def _exists(self, namespace: str, owner: FrameworkOwner) -> bool:
        """Whether that very Framework is there; known by its handler, so that its end will be heard of."""
        pauses = ExponentialBackoff(first=0.2, most=10.0)
        while True:
            try:
                found = await self._store.get(FRAMEWORKS, namespace, owner.name)
            except NotFound:
                return False
            except Unavailable:
                await asyncio.sleep(pauses.next_delay())
                continue
            if found["metadata"]["uid"] != owner.uid:
                return False
            self._frameworks.setdefault((namespace, owner.name), owner.uid)
            return True

    def _remove(self, key: Key) -> None:
        try:
            self._logs.remove(*key)
        except OSError as error:
            log.warning("logs not removed", extra={"pod": key, "why": str(error)})
