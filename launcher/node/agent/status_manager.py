"""The pod in the store, as its worker reads and writes it."""

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
    """The pod is no longer in the store, or another one has its name."""


class PodStatusManager:
    """One pod, by its uid, in its newest known state."""

    def __init__(self, pod: Object, tools: AgentDependencies) -> None:
        self.object = pod
        self._tools = tools
        self._uid = uid_of(pod)

    def saw(self, pod: Object) -> bool:
        """The store has told of that version. Whether it was not known: an answer to a write of ours always is."""
        newer = version_of(pod) > version_of(self.object)
        if newer:
            self.object = pod
        return newer

    async def report(self, status_of: Callable[[Object], Object]) -> None:
        """
        Have the store say what *status_of* makes of the pod; it is not written if that is stored already.

        Returns when it is there, however long that takes. Raises PodDeleted.
        """
        pauses = ExponentialBackoff(first=0.1, most=10.0)
        while (status := status_of(self.object)) != self.object.get("status"):
            try:
                answer = await self._tools.store.update_status(PODS, {**self.object, "status": status})
                self.saw(answer)
                self._tools.wrote(answer)
                return
            except NotFound:
                raise PodDeleted from None
            except (Conflict, OutcomeUnknown):
                await self._read(pauses)
            except Unavailable as error:
                await self._pause(pauses, error)

    async def remove(self) -> None:
        """Its grace is over: the store may drop the pod. Raises PodDeleted when it has no such pod."""
        meta = self.object["metadata"]
        pauses = ExponentialBackoff(first=0.1, most=10.0)
        while True:
            try:
                await self._tools.store.delete(
                    PODS, meta["namespace"], meta["name"], DeleteOptions(uid=self._uid, grace=0)
                )
                return
            except (NotFound, Conflict):
                raise PodDeleted from None
            except Unavailable as error:
                await self._pause(pauses, error)

    async def _read(self, pauses: ExponentialBackoff) -> None:
        meta = self.object["metadata"]
        try:
            pod = await self._tools.store.get(PODS, meta["namespace"], meta["name"])
        except NotFound:
            raise PodDeleted from None
        except Unavailable as error:
            await self._pause(pauses, error)
            return
        if uid_of(pod) != self._uid:
            raise PodDeleted
        self.saw(pod)

    async def _pause(self, pauses: ExponentialBackoff, error: Unavailable) -> None:
        log.info("pod not written", extra={"pod": self.object["metadata"]["name"], "why": str(error)})
        await asyncio.sleep(pauses.next_delay())
