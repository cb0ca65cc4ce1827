"""Backends with pod groups: one object per gang, created before its pods and deleted when the Framework completes."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.controller.gang.gang_request import GangRequest, is_controlled_by
from launcher.core.errors import AlreadyExists, Conflict, NotFound, Unavailable
from launcher.core.framework import Framework
from launcher.core.names import BACKEND_LABEL, PodIdentityKey
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.pods.overlay import PodOverlay, merge_overlays
from launcher.core.spec import RoleName
from launcher.store.interface import DeleteOptions, MergePatch, Object, ResourceKind, Store
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodGroupBackend:
    """The pod groups of one backend, as pure functions."""

    #: The value of the backend label of its pods.
    name: str
    #: Its name in messages.
    title: str
    kind: ResourceKind
    #: Returns the ``spec`` of the pod group.
    group_spec: Callable[[GangRequest], Object]
    #: Returns the fields by which the pods of a role belong to the pod group.
    pod_overlay: Callable[[GangRequest, RoleName], PodOverlay]
    #: Returns the number of pods that are scheduled together from a pod group.
    min_member: Callable[[Object], int]
    #: Whether that number can be changed in an existing pod group.
    min_member_is_mutable: bool = True
    #: Whether the scheduler counts completed pods.
    counts_completed_pods: bool = False
    #: Returns the reason why no pods may be created yet; empty if they may.
    blocked_reason: Callable[[Object], str] = lambda _: ""


class PodGroups:
    """Creates and deletes the pod groups of one backend."""

    def __init__(self, store: Store, backend: PodGroupBackend) -> None:
        self._store, self._backend = store, backend

    async def prepare(self, request: GangRequest) -> Mapping[RoleName, PodOverlay]:
        """
        Creates the pod group, or updates it, and deletes those of earlier attempts. Returns the overlay of each role.

        Raises Unavailable if the backend accepts no pods yet, Conflict if another pod group has the same name.
        """
        if self._backend.counts_completed_pods:
            request = replace(request, completed_tasks=0)
        group = None
        for existing in await self._owned_groups(request.framework):
            if existing["metadata"]["name"] == request.name:
                group = existing
            else:
                await self._delete(existing)
        group = await self._create(request) if group is None else await self._update(group, request)
        if reason := self._backend.blocked_reason(group):
            raise Unavailable(f"{self._describe(group)}: {reason}")
        if self._backend.min_member(group) > request.remaining_tasks:
            # Its number is immutable and can no longer be reached: pods of this group would never be scheduled.
            return {}
        label = PodOverlay(labels={BACKEND_LABEL: self._backend.name})
        return {
            role.name: merge_overlays((label, self._backend.pod_overlay(request, role.name)))
            for role in request.roles
        }

    async def finish(self, framework: Framework) -> None:
        """Deletes all pod groups of the Framework."""
        for group in await self._owned_groups(framework):
            await self._delete(group)

    async def _owned_groups(self, framework: Framework) -> list[Object]:
        page = await self._store.list(
            self._backend.kind,
            framework.namespace,
            Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: framework.name}),
        )
        return [group for group in page.items if is_controlled_by(group, framework)]

    async def _create(self, request: GangRequest) -> Object:
        kind = self._backend.kind
        group = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": request.metadata(),
            "spec": self._backend.group_spec(request),
        }
        try:
            created = await self._store.create(kind, group)
        except AlreadyExists:
            raise Conflict(
                f"{self._describe(group)} already exists and is not owned by this Framework. "
                "Delete it or rename the Framework"
            ) from None
        log.info("pod group created", extra={"group": self._describe(created), "backend": self._backend.name})
        return created

    async def _update(self, group: Object, request: GangRequest) -> Object:
        """Lowers the number of an existing pod group after tasks completed or were removed. It is never raised."""
        if is_deleted(group):
            raise Unavailable(f"waiting for {self._describe(group)} to be deleted")
        if not self._backend.min_member_is_mutable or self._backend.min_member(group) <= request.minimum:
            return group
        patch = MergePatch({"spec": self._backend.group_spec(request)})
        return await self._store.patch(self._backend.kind, request.framework.namespace, request.name, patch)

    async def _delete(self, group: Object) -> None:
        if is_deleted(group):
            return
        meta = group["metadata"]
        try:
            await self._store.delete(
                self._backend.kind, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"])
            )
        except (NotFound, Conflict) as error:
            log.info("pod group already deleted", extra={"group": self._describe(group), "error": str(error)})

    def _describe(self, group: Object) -> str:
        return f"{self._backend.kind.kind} {group['metadata']['name']} ({self._backend.kind.resource})"
