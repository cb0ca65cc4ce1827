"""The job kinds that the launcher runs in a cluster: those with its own CustomResourceDefinition."""

import asyncio
import logging
from collections.abc import Sequence
from enum import StrEnum

from launcher.core.errors import Forbidden, LauncherError, NotFound, NotServed
from launcher.job_kinds.job_kind import JOB_KINDS, JobKind
from launcher.job_kinds.schema import OWN_LABEL
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import Discover, ResourceKind, Store

log = logging.getLogger(__name__)

DEFINITIONS = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
#: Seconds between checks.
_INTERVAL_SECONDS = 60.0


class KindOwner(StrEnum):
    """The operator that runs jobs of a kind."""

    LAUNCHER = "launcher"
    OTHER = "another operator"
    NONE = "none"


class JobKindOwnership:
    """Checks periodically which job kinds the launcher owns."""

    def __init__(
        self,
        discover: Discover,
        store: Store,
        job_kinds: Sequence[JobKind] = JOB_KINDS,
        *,
        interval_seconds: float = _INTERVAL_SECONDS,
    ) -> None:
        self._discover, self._store, self._job_kinds, self._interval_seconds = (
            discover,
            store,
            job_kinds,
            interval_seconds,
        )
        self._owners: dict[str, KindOwner] = {}
        self._changed = asyncio.Event()

    def is_owned(self, job_kind: JobKind) -> bool:
        """Whether the launcher runs jobs of that kind, as of the last check."""
        return self._owners.get(job_kind.kind.resource) is KindOwner.LAUNCHER

    async def wait_until(self, job_kind: JobKind, *, owned: bool) -> None:
        """Waits until ``is_owned`` equals *owned*."""
        while self.is_owned(job_kind) is not owned:
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        """Checks until cancelled."""
        backoff = ExponentialBackoff(initial=1.0, maximum=self._interval_seconds)
        while True:
            if all([await self._check(job_kind) for job_kind in self._job_kinds]):
                backoff.reset()
                await asyncio.sleep(self._interval_seconds)
            else:
                await asyncio.sleep(backoff.next_delay())

    async def _check(self, job_kind: JobKind) -> bool:
        """Updates the owner of one kind; False when the cluster could not be read."""
        try:
            self._set_owner(job_kind, await self._read_owner(job_kind))
        except LauncherError as error:
            log.debug("owner of job kind not read", extra={"kind": job_kind.kind.kind, "error": str(error)})
            return False
        return True

    async def _read_owner(self, job_kind: JobKind) -> KindOwner:
        try:
            resources = (await self._discover(f"/apis/{job_kind.kind.api_version}")).get("resources")
        except NotServed:
            return KindOwner.NONE
        if all(resource.get("name") != job_kind.plural for resource in resources or ()):
            return KindOwner.NONE
        try:
            definition = await self._store.get(DEFINITIONS, "", job_kind.kind.resource)
        except Forbidden:
            # The component that installs the launcher's definition also allows reading it.
            return KindOwner.OTHER
        except NotFound:
            return KindOwner.NONE
        labels = definition["metadata"].get("labels") or {}
        return KindOwner.LAUNCHER if OWN_LABEL.items() <= labels.items() else KindOwner.OTHER

    def _set_owner(self, job_kind: JobKind, owner: KindOwner) -> None:
        resource = job_kind.kind.resource
        if self._owners.get(resource) is owner:
            return
        self._owners[resource] = owner
        self._changed.set()
        component = f"deploy/kubernetes/components/{job_kind.singular}"
        match owner:
            case KindOwner.LAUNCHER:
                log.info("jobs of this kind are run as Frameworks", extra={"kind": job_kind.kind.kind})
            case KindOwner.OTHER:
                log.warning(
                    "job kind is served by another operator, not handled",
                    extra={"kind": job_kind.kind.kind, "definition": resource, "component": component},
                )
            case KindOwner.NONE:
                log.debug(
                    "job kind not installed", extra={"kind": job_kind.kind.kind, "component": component}
                )
