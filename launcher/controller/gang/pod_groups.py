"""Gangs that another scheduler places: an object of its own for each, made before the pods, gone when they are over."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest, is_of
from launcher.core.errors import AlreadyExists, Conflict, NotFound, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.pods.overlay import PodOverlay, merge_overlays
from launcher.core.spec import RoleName
from launcher.store.interface import DeleteOptions, MergePatch, Object, ResourceKind, Store
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodGroupBackend:
    """How one backend wants its gangs: pure functions of what is wanted."""

    #: What its pods' label says.
    backend: str
    #: What people call it.
    title: str
    kind: ResourceKind
    #: The ``spec`` of the group.
    spec: Callable[[GangRequest], Object]
    #: What the pods of a role get to belong to it.
    extras: Callable[[GangRequest, RoleName], PodOverlay]
    #: How many are placed together, as a group says it.
    min_member: Callable[[Object], int]
    #: Whether a group that is there can be told another number.
    can_change: bool = True
    #: Whether pods that are over still count.
    counts_ended: bool = False
    #: Why no pod may be created yet; empty when they may.
    blocked_reason: Callable[[Object], str] = lambda _: ""


class Groups:
    """The groups of one backend."""

    def __init__(self, store: Store, shape: PodGroupBackend) -> None:
        self._store, self._shape = store, shape

    async def prepare(self, wanted: GangRequest) -> Mapping[RoleName, PodOverlay]:
        """
        What the pods get; their group is there by then, and those of earlier attempts are not.

        Raises Unavailable while the backend wants no pods yet, Conflict when the group's name is taken.
        """
        if self._shape.counts_ended:
            wanted = replace(wanted, ended=0)
        group = None
        for there in await self._of(wanted.framework):
            if there["metadata"]["name"] == wanted.name:
                group = there
            else:
                await self._remove(there)
        group = await self._made(wanted) if group is None else await self._fitted(group, wanted)
        if why := self._shape.blocked_reason(group):
            raise Unavailable(f"{self._named(group)} waits: {why}")
        if self._shape.min_member(group) > wanted.remaining_tasks:
            # Nothing can change it, and with so few tasks left it would hold up whoever joins it.
            return {}
        mark = PodOverlay(labels={BACKEND_LABEL: self._shape.backend})
        return {
            role.name: merge_overlays((mark, self._shape.extras(wanted, role.name))) for role in wanted.roles
        }

    async def finish(self, framework: Framework) -> None:
        """No group of that Framework is left."""
        for group in await self._of(framework):
            await self._remove(group)

    async def _of(self, framework: Framework) -> list[Object]:
        page = await self._store.list(
            self._shape.kind,
            framework.namespace,
            Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: framework.name}),
        )
        return [group for group in page.items if is_of(group, framework)]

    async def _made(self, wanted: GangRequest) -> Object:
        kind = self._shape.kind
        group = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": wanted.metadata(),
            "spec": self._shape.spec(wanted),
        }
        try:
            made = await self._store.create(kind, group)
        except AlreadyExists:
            raise Conflict(
                f"{self._named(group)} is there already, and it is not this Framework's: delete it, or give the "
                "Framework another name"
            ) from None
        log.info("gang begun", extra={"group": self._named(made), "backend": self._shape.backend})
        return made

    async def _fitted(self, group: Object, wanted: GangRequest) -> Object:
        """The group as it is to be now: when tasks are over or given up fewer are placed together, but never more."""
        if "deletionTimestamp" in group["metadata"]:
            raise Unavailable(f"{self._named(group)} is being deleted: the next one has to wait for that")
        if not self._shape.can_change or self._shape.min_member(group) <= wanted.least:
            return group
        change = MergePatch({"spec": self._shape.spec(wanted)})
        return await self._store.patch(self._shape.kind, wanted.framework.namespace, wanted.name, change)

    async def _remove(self, group: Object) -> None:
        meta = group["metadata"]
        if "deletionTimestamp" in meta:
            return
        try:
            await self._store.delete(
                self._shape.kind, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"])
            )
        except (NotFound, Conflict) as error:
            log.info("group is gone already", extra={"group": self._named(group), "why": str(error)})

    def _named(self, group: Object) -> str:
        return f"{self._shape.kind.kind} {group['metadata']['name']} ({self._shape.kind.resource})"
