"""Which kinds of jobs are ours to run in a cluster: those that it knows by a definition of ours, and of nobody else."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from launcher.core.errors import Forbidden, LauncherError, NotFound, NotServed
from launcher.job_kinds.job_kind import FOREIGN, JobKind
from launcher.job_kinds.schema import OWN_LABEL
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import Object, ResourceKind, Store

log = logging.getLogger(__name__)

#: Gives what the API server answers to a GET of that path.
Ask = Callable[[str], Awaitable[Object]]

DEFINITIONS = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
#: Seconds after which the cluster is asked again.
_PAUSE = 60.0


class KindOwner(StrEnum):
    """Who runs jobs of a kind."""

    OURS = "ours"
    OTHERS = "another operator's"
    NOBODYS = "nobody's"


class JobKindOwnership:
    """Looks at the cluster now and then, and knows which jobs are ours."""

    def __init__(
        self, ask: Ask, store: Store, foreign: Sequence[JobKind] = FOREIGN, *, pause: float = _PAUSE
    ) -> None:
        self._ask, self._store, self._foreign, self._pause = ask, store, foreign, pause
        self._whose: dict[str, KindOwner] = {}
        self._changed = asyncio.Event()

    def are_ours(self, foreign: JobKind) -> bool:
        """Whether jobs of that kind are ours to run, as far as is known."""
        return self._whose.get(foreign.kind.resource) is KindOwner.OURS

    async def turned(self, foreign: JobKind, *, ours: bool) -> None:
        """Return when jobs of that kind are ours, or no longer are."""
        while self.are_ours(foreign) is not ours:
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Look until cancelled."""
        pauses = ExponentialBackoff(first=1.0, most=self._pause)
        while True:
            if all([await self._is_seen(foreign) for foreign in self._foreign]):
                pauses.reset()
                await asyncio.sleep(self._pause)
            else:
                await asyncio.sleep(pauses.next_delay())

    async def _is_seen(self, foreign: JobKind) -> bool:
        """Whether it could be found out whose jobs of that kind are."""
        try:
            self._found(foreign, await self._look(foreign))
        except LauncherError as error:
            log.debug("cannot see whose jobs are", extra={"kind": foreign.kind.kind, "why": str(error)})
            return False
        return True

    async def _look(self, foreign: JobKind) -> KindOwner:
        try:
            there = await self._ask(f"/apis/{foreign.kind.api_version}")
        except NotServed:
            return KindOwner.NOBODYS
        if all(one.get("name") != foreign.plural for one in there.get("resources") or ()):
            return KindOwner.NOBODYS
        try:
            definition = await self._store.get(DEFINITIONS, "", foreign.kind.resource)
        except Forbidden:
            # Whoever installs our definition gives us the right to read it.
            return KindOwner.OTHERS
        except NotFound:
            return KindOwner.NOBODYS
        labels = definition["metadata"].get("labels") or {}
        return KindOwner.OURS if OWN_LABEL.items() <= labels.items() else KindOwner.OTHERS

    def _found(self, foreign: JobKind, whose: KindOwner) -> None:
        resource = foreign.kind.resource
        if self._whose.get(resource) is whose:
            return
        self._whose[resource] = whose
        self._changed.set()
        component = f"deploy/kubernetes/components/{foreign.singular}"
        match whose:
            case KindOwner.OURS:
                log.info("jobs are run as Frameworks", extra={"kind": foreign.kind.kind})
            case KindOwner.OTHERS:
                log.warning(
                    "jobs are left alone: another operator serves their kind",
                    extra={"kind": foreign.kind.kind, "definition": resource, "to_take_over": component},
                )
            case KindOwner.NOBODYS:
                log.debug("jobs are not served", extra={"kind": foreign.kind.kind, "to_serve": component})
