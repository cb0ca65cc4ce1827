"""The attempt hook of Services, which give the tasks of a Framework DNS names."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any

from launcher.core.errors import AlreadyExists, Conflict, LauncherError, NotFound, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import KIND, PodIdentityKey
from launcher.core.owner_references import controller_of, controller_uid
from launcher.core.pods.dns_overlay import dns_overlays
from launcher.core.pods.overlay import PodOverlay
from launcher.core.pods.services import service_name, services_of
from launcher.core.spec import CleanPodPolicy, RoleName
from launcher.store.interface import SERVICES, DeleteOptions, Object, Store
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

#: Concurrent calls for Services of all Frameworks; fewer than for pods.
_MAX_CALLS = 16
_PAGE_SIZE = 500


class ServiceControl:
    """
    Creates and deletes Services.

    A Framework without Services causes no calls. A Service of another owner is never changed: if it has the name of
    a required Service, no pods are created, and the status of the tasks contains the reason.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._slots = asyncio.Semaphore(_MAX_CALLS)

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """Creates the Services and returns the DNS overlays. Raises LauncherError while a Service is missing."""
        del attempt
        desired = services_of(framework)
        if desired:
            await self._create_missing(framework, desired)
        elif framework.generation > 1:
            await self._delete_outdated(framework)
        return dns_overlays(framework)

    async def finish(self, framework: Framework) -> None:
        """Deletes all Services, unless pods keep running, which still need their DNS names."""
        if framework.spec.clean_pods is not CleanPodPolicy.NONE and services_of(framework):
            await self._delete_all((await self._owned_services(framework)).values())

    async def _create_missing(self, framework: Framework, desired: Mapping[str, Object]) -> None:
        """Creates the Services that do not exist. Deletes those that are not desired or differ, first."""
        existing = await self._owned_services(framework)
        current = {name for name, service in existing.items() if _is_current(service, desired.get(name))}
        await self._delete_all(service for name, service in existing.items() if name not in current)
        await _gather(self._create(framework, desired[name]) for name in desired if name not in current)

    async def _delete_outdated(self, framework: Framework) -> None:
        """Deletes Services of an earlier spec. A failure is only logged."""
        try:
            await self._delete_all((await self._owned_services(framework)).values())
        except LauncherError as error:
            extra = {"framework": (framework.namespace, framework.name), "error": str(error)}
            log.warning("services not deleted", extra=extra)

    async def _owned_services(self, framework: Framework) -> dict[str, Object]:
        """Returns the Framework's Services by name."""
        selector = Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: framework.name})
        owned: dict[str, Object] = {}
        continue_token = None
        while True:
            page = await self._store.list(
                SERVICES, framework.namespace, selector, limit=_PAGE_SIZE, continue_token=continue_token
            )
            owned |= {
                service["metadata"]["name"]: service
                for service in page.items
                if controller_uid(service) == framework.uid
            }
            continue_token = page.continue_token
            if continue_token is None:
                return owned

    async def _create(self, framework: Framework, service: Object) -> None:
        async with self._slots:
            try:
                await self._store.create(SERVICES, service)
            except AlreadyExists:
                await self._check_existing(framework, service)

    async def _check_existing(self, framework: Framework, service: Object) -> None:
        """Raises LauncherError unless the existing Service of that name can be used."""
        name = service["metadata"]["name"]
        try:
            existing = await self._store.get(SERVICES, framework.namespace, name)
        except NotFound as error:
            raise Unavailable(f"Service {name} was deleted; it is created again") from error
        owner = controller_of(existing["metadata"])
        if owner.get("uid") == framework.uid:
            return
        if (owner.get("kind"), owner.get("name")) == (KIND, framework.name):
            raise Unavailable(f"waiting for Service {name} of a deleted Framework to be removed")
        if not _can_replace(existing, service, framework):
            raise Conflict(
                f"Service {name} already exists and is not owned by this Framework. Delete it or rename the Framework"
            )

    async def _delete_all(self, services: Iterable[Object]) -> None:
        await _gather(self._delete(service["metadata"]) for service in services)

    async def _delete(self, metadata: Mapping[str, Any]) -> None:
        # Conflict: the name now belongs to another Service.
        async with self._slots:
            with suppress(NotFound, Conflict):
                options = DeleteOptions(uid=metadata["uid"])
                await self._store.delete(SERVICES, metadata["namespace"], metadata["name"], options)


def _is_current(service: Object, desired: Object | None) -> bool:
    """Whether the Service has the same selector, type and ports as the *desired* one."""
    return desired is not None and _selector_type_ports(service) == _selector_type_ports(desired)


def _selector_type_ports(service: Object) -> tuple[Any, ...]:
    spec = service["spec"]
    ports = [(port.get("name"), port["port"], port.get("protocol")) for port in spec.get("ports") or ()]
    return spec.get("selector"), spec.get("type") or "ClusterIP", ports


def _can_replace(existing: Object, service: Object, framework: Framework) -> bool:
    """Whether a Service of another owner resolves the DNS names of the pods as *service* would."""
    if service["metadata"]["name"] != service_name(framework.name):
        return False
    if framework.spec.discovery is None:
        return True  # the pod template refers to it by name
    selector = existing["spec"].get("selector") or {}
    is_headless = existing["spec"].get("clusterIP") == "None"
    return bool(selector) and is_headless and selector.items() <= service["spec"]["selector"].items()


async def _gather(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Awaits all calls. Raises the first error after all have returned."""
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if error is not None:
            raise error
