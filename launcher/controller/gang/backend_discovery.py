"""Gang backends that are installed in the cluster, by API discovery, and the choice of one for a gang."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.gang_request import DEFAULT_SCHEDULER, GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.errors import FieldError, InvalidObject, NotServed
from launcher.store.interface import Discover

log = logging.getLogger(__name__)

#: The result of a discovery is used for this long.
_CACHE_SECONDS: Final = 300.0
KUEUE_GROUP: Final = "kueue.x-k8s.io"
_KUEUE_RESOURCE: Final = "localqueues"


class BuiltinBackend(StrEnum):
    """Backends without a pod group."""

    KUEUE = "kueue"
    GATES = "gates"


Backend = PodGroupBackend | BuiltinBackend


@dataclass(frozen=True, slots=True)
class AvailableBackends:
    """The backends that are installed."""

    #: The first that fits is chosen.
    pod_groups: tuple[PodGroupBackend, ...] = ()
    #: The version of Kueue's API; empty if Kueue is not installed.
    kueue_version: str = ""

    @property
    def has_volcano(self) -> bool:
        return volcano.BACKEND in self.pod_groups

    def by_name(self, name: str) -> Backend:
        """Returns the backend with that name. Raises NotServed if it is not installed."""
        if name == BuiltinBackend.GATES or (name == BuiltinBackend.KUEUE and self.kueue_version):
            return BuiltinBackend(name)
        for backend in self.pod_groups:
            if backend.name == name:
                return backend
        raise NotServed(f"the gang is scheduled by {name}, which is no longer installed in this cluster")


class BackendDiscovery:
    """Discovers the installed backends, and caches the result."""

    def __init__(self, discover: Discover, clock: Callable[[], float]) -> None:
        self._discover, self._clock = discover, clock
        self._cached: AvailableBackends | None = None
        self._cached_until = 0.0

    async def available_backends(self) -> AvailableBackends:
        """Returns the installed backends. Raises Unavailable if the API server does not respond."""
        if self._cached is None or self._clock() >= self._cached_until:
            self._cached = await self._discover_backends()
            self._cached_until = self._clock() + _CACHE_SECONDS
        return self._cached

    def invalidate(self) -> None:
        """Clears the cache, because a discovered backend is no longer served."""
        self._cached = None

    async def _discover_backends(self) -> AvailableBackends:
        groups = {
            group["name"]: _versions(group) for group in (await self._discover("/apis")).get("groups") or ()
        }
        pod_groups: list[PodGroupBackend] = []
        for backend in native.BACKENDS:
            if await self._serves(groups, native.GROUP, backend.kind.version, backend.kind.plural):
                pod_groups.append(backend)
                break
        pod_groups += [
            backend
            for backend in (volcano.BACKEND, scheduler_plugins.BACKEND)
            if await self._serves(groups, backend.kind.group, backend.kind.version, backend.kind.plural)
        ]
        kueue_version = ""
        for version in groups.get(KUEUE_GROUP, ()):
            if await self._serves(groups, KUEUE_GROUP, version, _KUEUE_RESOURCE):
                kueue_version = version
                break
        available = AvailableBackends(tuple(pod_groups), kueue_version)
        if available != self._cached:
            resources = [backend.kind.resource for backend in pod_groups]
            resources += [f"{KUEUE_GROUP}/{kueue_version}"] * bool(kueue_version)
            log.info("gang scheduling backends discovered", extra={"resources": resources})
        return available

    async def _serves(self, groups: Mapping[str, list[str]], group: str, version: str, plural: str) -> bool:
        """Whether the API server serves the resource: a version of a group does not contain all its resources."""
        if version not in groups.get(group, ()):
            return False
        try:
            resources = (await self._discover(f"/apis/{group}/{version}")).get("resources")
        except NotServed:
            return False  # removed since the groups were read
        return any(resource.get("name") == plural for resource in resources or ())


def _versions(group: Mapping[str, Any]) -> list[str]:
    """Returns all versions, the preferred one first."""
    return [version["version"] for version in group.get("versions") or ()]


def choose_backend(request: GangRequest, available: AvailableBackends, queue: str) -> Backend:
    """
    Returns the backend for the gang; *queue* is its queue in Kueue or Volcano, or empty.

    Raises InvalidObject if the gang has a queue and no installed backend has queues.
    """
    schedulers = request.schedulers()
    usable = _usable_with(schedulers, available)
    # Volcano has queues as well: the queue of pods with its scheduler is one of Volcano's.
    uses_volcano = volcano.SCHEDULER in schedulers and available.has_volcano
    if queue and available.kueue_version and not uses_volcano:
        return BuiltinBackend.KUEUE
    if request.gang.queue:
        if volcano.BACKEND not in usable:
            raise InvalidObject((FieldError("spec.gang.queue", _queue_error(request, available)),))
        return volcano.BACKEND
    return next(iter(usable), BuiltinBackend.GATES)


def _usable_with(schedulers: frozenset[str], available: AvailableBackends) -> Sequence[PodGroupBackend]:
    """Returns the backends that work with these schedulerNames, the preferred one first."""
    if volcano.SCHEDULER in schedulers and available.has_volcano:
        return [volcano.BACKEND]
    others = [backend for backend in available.pod_groups if backend is not volcano.BACKEND]
    if schedulers - {DEFAULT_SCHEDULER}:
        # A scheduler with another name is most likely one with the coscheduling plugin.
        return sorted(others, key=lambda backend: backend is not scheduler_plugins.BACKEND)
    return others if schedulers else available.pod_groups


def _queue_error(request: GangRequest, available: AvailableBackends) -> str:
    resources = f"{_KUEUE_RESOURCE}.{KUEUE_GROUP} nor {volcano.KIND.resource}"
    reason = f"this cluster serves neither {resources}"
    if available.has_volcano:
        reason = f"this cluster does not serve {_KUEUE_RESOURCE}.{KUEUE_GROUP}, and pods with schedulerName "
        reason += f"{' and '.join(sorted(request.schedulers()))} do not use Volcano's queues"
    return f'Invalid value: "{request.gang.queue}": {reason}. Install Kueue or Volcano, or remove the queue'
