"""Gangs that Kueue lets in: a group of plain pods in one of its queues."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from launcher.controller.gang.backend_discovery import KUEUE_GROUP, BuiltinBackend
from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest
from launcher.core.errors import Conflict, FieldError, InvalidObject, NotFound
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import PODS, DeleteOptions, MergePatch, Object, ResourceKind, Store
from launcher.store.selectors import LabelRequirement, Operator, Selector

log = logging.getLogger(__name__)

QUEUE_LABEL: Final = f"{KUEUE_GROUP}/queue-name"
GROUP_LABEL: Final = f"{KUEUE_GROUP}/pod-group-name"
TOTAL: Final = f"{KUEUE_GROUP}/pod-group-total-count"
#: Says of one pod that its group is over once all of its pods are.
_FINAL: Final = f"{KUEUE_GROUP}/retriable-in-group"


def queue_of(wanted: GangRequest, labels: Mapping[str, str]) -> str:
    """
    The queue that the gang is to wait in; empty for none. *labels* are those of the Framework.

    Raises InvalidObject when its pods name different ones.
    """
    named = {one.get(QUEUE_LABEL) or "" for one in wanted.labels()} - {""}
    queue = wanted.gang.queue or labels.get(QUEUE_LABEL) or ""
    if not queue and len(named) > 1:
        message = f"the tasks of a gang wait in one queue, and these name {' and '.join(sorted(named))}"
        raise InvalidObject((FieldError("spec.taskRoles", f"{message}: name it in spec.gang.queue"),))
    return queue or next(iter(named), "")


def extras(wanted: GangRequest, queue: str, total: int) -> PodOverlay:
    """What every pod gets. In a group of another size than *total* it would be in the way, so it waits by itself."""
    queued = PodOverlay(labels={BACKEND_LABEL: BuiltinBackend.KUEUE.value, QUEUE_LABEL: queue})
    if total != wanted.total:
        return queued
    # Kueue lets in all of them or none: a smaller number to begin with is more than it knows of.
    return PodOverlay(
        labels={**queued.labels, GROUP_LABEL: wanted.name},
        annotations={TOTAL: str(wanted.total)},
    )


class Kueue:
    """Gangs in Kueue's queues. It makes a Workload for each, named as the group."""

    def __init__(self, store: Store, version: str) -> None:
        self._store = store
        self._queues = ResourceKind(KUEUE_GROUP, version, "localqueues", "LocalQueue")
        self._workloads = ResourceKind(KUEUE_GROUP, version, "workloads", "Workload")

    async def prepare(self, wanted: GangRequest, queue: str) -> Mapping[RoleName, PodOverlay]:
        """What the pods get. Raises InvalidObject when there is no such queue."""
        namespace = wanted.framework.namespace
        try:
            await self._store.get(self._queues, namespace, queue)
        except NotFound:
            message = f'Invalid value: "{queue}": namespace {namespace} has no LocalQueue of that name'
            raise InvalidObject((FieldError("spec.gang.queue", message),)) from None
        given = extras(wanted, queue, await self._total(wanted))
        return {role.name: given for role in wanted.roles}

    async def finish(self, framework: Framework) -> None:
        """The Workload is over, and what it had of the queue is free, however its pods ended."""
        ours = LabelRequirement(GROUP_LABEL, Operator.EXISTS)
        groups: dict[str, list[Object]] = {}
        for pod in await self._pods(framework, Selector((ours,))):
            groups.setdefault(pod["metadata"]["labels"][GROUP_LABEL], []).append(pod)
        for name, pods in groups.items():
            await self._end(framework.namespace, name, pods)

    async def _end(self, namespace: str, name: str, pods: list[Object]) -> None:
        # By this Kueue knows that no pod will follow, and lets go of those that are there.
        last = min(pods, key=lambda pod: "deletionTimestamp" in pod["metadata"])
        change = MergePatch({"metadata": {"uid": last["metadata"]["uid"], "annotations": {_FINAL: "false"}}})
        try:
            await self._store.patch(PODS, namespace, last["metadata"]["name"], change)
        except (NotFound, Conflict) as error:
            log.info("pod is gone already", extra={"pod": last["metadata"]["name"], "why": str(error)})
        try:
            workload = await self._store.get(self._workloads, namespace, name)
            if _is_of(workload, pods):
                uid = workload["metadata"]["uid"]
                await self._store.delete(self._workloads, namespace, name, DeleteOptions(uid=uid))
        except (NotFound, Conflict) as error:
            log.info("workload is gone already", extra={"workload": name, "why": str(error)})

    async def _total(self, wanted: GangRequest) -> int:
        """How many pods Kueue has been told to wait for in this attempt."""
        of = Selector.labelled({GROUP_LABEL: wanted.name})
        for pod in await self._pods(wanted.framework, of, limit=1):
            told = (pod["metadata"].get("annotations") or {}).get(TOTAL) or ""
            if told.isascii() and told.isdigit():
                return int(told)
        return wanted.total

    async def _pods(self, framework: Framework, where: Selector, limit: int | None = None) -> Any:
        ours = Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: framework.name})
        page = await self._store.list(PODS, framework.namespace, ours & where, limit=limit)
        return page.items


def _is_of(workload: Object, pods: list[Object]) -> bool:
    """Whether Kueue made it for these pods; anybody may have one of that name."""
    uids = {pod["metadata"]["uid"] for pod in pods}
    return any(owner["uid"] in uids for owner in workload["metadata"].get("ownerReferences") or ())
