"""Keeps the Services by which the tasks of a Framework have names, from before its first pod on."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any

from launcher.core.errors import AlreadyExists, Conflict, LauncherError, NotFound, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import KIND, PodIdentityKey
from launcher.core.owner_references import controller_of
from launcher.core.pods.dns_overlay import dns_overlays
from launcher.core.pods.overlay import PodOverlay
from launcher.core.pods.services import service_name, services_of
from launcher.core.spec import CleanPodPolicy, RoleName
from launcher.store.interface import SERVICES, DeleteOptions, Object, Store
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

#: Services made or removed at the same time, over all Frameworks: pods are to have most of the way.
_CALLS = 16
_PAGE = 500


class ServiceControl:
    """
    An attendant that sees to Services.

    A Framework that uses no names costs nothing. A Service that is somebody else's is never changed: where it has the
    name of one that is needed, the pods wait, and their status says for what.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._slots = asyncio.Semaphore(_CALLS)

    async def prepare(self, framework: Framework, attempt: int) -> Mapping[RoleName, PodOverlay]:
        """Names for the pods of each role. Raises LauncherError while a Service cannot be had."""
        del attempt
        wanted = services_of(framework)
        if wanted:
            await self._bring_in_line(framework, wanted)
        elif framework.generation > 1:
            await self._tidy(framework)
        return dns_overlays(framework)

    async def finish(self, framework: Framework) -> None:
        """No Service is left, unless pods are: whoever goes on running keeps its name."""
        if framework.spec.clean_pods is not CleanPodPolicy.NONE and services_of(framework):
            await self._remove((await self._owned(framework)).values())

    async def _bring_in_line(self, framework: Framework, wanted: Mapping[str, Object]) -> None:
        there = await self._owned(framework)
        right = {name for name, service in there.items() if _is_as(service, wanted.get(name))}
        await self._remove(service for name, service in there.items() if name not in right)
        await _all(self._make(framework, wanted[name]) for name in wanted if name not in right)

    async def _tidy(self, framework: Framework) -> None:
        """Remove what an earlier spec asked for. Nobody waits for that."""
        try:
            await self._remove((await self._owned(framework)).values())
        except LauncherError as error:
            extra = {"framework": (framework.namespace, framework.name), "why": str(error)}
            log.warning("services are left behind", extra=extra)

    async def _owned(self, framework: Framework) -> dict[str, Object]:
        """The Framework's Services by their names."""
        where = Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: framework.name})
        owned: dict[str, Object] = {}
        token = None
        while True:
            page = await self._store.list(SERVICES, framework.namespace, where, limit=_PAGE, token=token)
            owned |= {
                service["metadata"]["name"]: service
                for service in page.items
                if controller_of(service["metadata"]).get("uid") == framework.uid
            }
            token = page.continue_token
            if token is None:
                return owned

    async def _make(self, framework: Framework, service: Object) -> None:
        async with self._slots:
            try:
                await self._store.create(SERVICES, service)
            except AlreadyExists:
                await self._accept(framework, service)

    async def _accept(self, framework: Framework, service: Object) -> None:
        """Return if the Service that has the name already will do. Raises LauncherError."""
        name = service["metadata"]["name"]
        try:
            found = await self._store.get(SERVICES, framework.namespace, name)
        except NotFound as error:
            raise Unavailable(f"the Service {name} has just gone; another is made") from error
        owner = controller_of(found["metadata"])
        if owner.get("uid") == framework.uid:
            return
        if (owner.get("kind"), owner.get("name")) == (KIND, framework.name):
            raise Unavailable(f"the Service {name} of an earlier Framework of this name has yet to go")
        if not _will_do(framework, service, found):
            raise Conflict(
                f"a Service named {name} is there already, and it is not this Framework's: delete it, or give the "
                "Framework another name"
            )

    async def _remove(self, services: Iterable[Object]) -> None:
        await _all(self._delete(service["metadata"]) for service in services)

    async def _delete(self, metadata: Mapping[str, Any]) -> None:
        # Conflict: another has the name by now.
        async with self._slots:
            with suppress(NotFound, Conflict):
                how = DeleteOptions(uid=metadata["uid"])
                await self._store.delete(SERVICES, metadata["namespace"], metadata["name"], how)


def _is_as(service: Object, wanted: Object | None) -> bool:
    """Whether the Service leads to where the *wanted* one is to lead."""
    return wanted is not None and _leads(service) == _leads(wanted)


def _leads(service: Object) -> tuple[Any, ...]:
    spec = service["spec"]
    ports = [(port.get("name"), port["port"], port.get("protocol")) for port in spec.get("ports") or ()]
    return spec.get("selector"), spec.get("type") or "ClusterIP", ports


def _will_do(framework: Framework, service: Object, found: Object) -> bool:
    """Whether somebody else's Service gives pods their names just as well."""
    if service["metadata"]["name"] != service_name(framework.name):
        return False
    if framework.spec.discovery is None:
        return True  # the template names it, and so means it
    selector = found["spec"].get("selector") or {}
    is_headless = found["spec"].get("clusterIP") == "None"
    return bool(selector) and is_headless and selector.items() <= service["spec"]["selector"].items()


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when all are done. Raises what the first of them raised that failed."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for outcome in done:
        if outcome is not None:
            raise outcome
