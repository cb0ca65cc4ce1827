"""Reads and writes one pod in the store, for its worker."""

import asyncio
import logging
from collections.abc import Callable

from launcher.core.errors import Conflict, NotFound, OutcomeUnknown, Unavailable
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.pods.pod_spec import uid_of
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import PODS, DeleteOptions, Object, version_of

log = logging.getLogger(__name__)


class PodDeleted(Exception):
    """The pod no longer exists in the store, or another pod has its name."""


class PodStatusManager:
    """One pod, identified by its uid, in its latest observed version."""

    def __init__(
        self, pod: Object, dependencies: AgentDependencies, on_write: Callable[[Object], None]
    ) -> None:
        """*on_write* is called with the stored pod after each write."""
        self.object = pod
        self._store, self._on_write = dependencies.store, on_write
        self._uid = uid_of(pod)

    def update(self, pod: Object) -> bool:
        """Takes over a newer version of the pod. Returns False for a known one, such as the result of a write."""
        is_newer = version_of(pod) > version_of(self.object)
        if is_newer:
            self.object = pod
        return is_newer

    async def write_status(self, build_status: Callable[[Object], Object]) -> None:
        """
        Write the status that *build_status* returns for the pod, unless it is stored already.

        Retries until it is stored. Raises PodDeleted.
        """
        backoff = ExponentialBackoff(initial=0.1, maximum=10.0)
        while (status := build_status(self.object)) != self.object.get("status"):
            try:
                stored = await self._store.update_status(PODS, {**self.object, "status": status})
                self.update(stored)
                self._on_write(stored)
                return
            except NotFound:
                raise PodDeleted from None
            except (Conflict, OutcomeUnknown):
                await self._read(backoff)
            except Unavailable as error:
                await self._wait(backoff, error)

    async def remove(self) -> None:
        """Removes the pod from the store, now that its containers have ended. Raises PodDeleted if it is gone."""
        meta = self.object["metadata"]
        backoff = ExponentialBackoff(initial=0.1, maximum=10.0)
        while True:
            try:
                options = DeleteOptions(uid=self._uid, grace=0)
                await self._store.delete(PODS, meta["namespace"], meta["name"], options)
                return
            except (NotFound, Conflict):
                raise PodDeleted from None
            except Unavailable as error:
                await self._wait(backoff, error)

    async def _read(self, backoff: ExponentialBackoff) -> None:
        meta = self.object["metadata"]
        try:
            pod = await self._store.get(PODS, meta["namespace"], meta["name"])
        except NotFound:
            raise PodDeleted from None
        except Unavailable as error:
            await self._wait(backoff, error)
            return
        if uid_of(pod) != self._uid:
            raise PodDeleted
        self.update(pod)

    async def _wait(self, backoff: ExponentialBackoff, error: Unavailable) -> None:
        log.info(
            "pod status not written", extra={"pod": self.object["metadata"]["name"], "error": str(error)}
        )
        await asyncio.sleep(backoff.next_delay())
