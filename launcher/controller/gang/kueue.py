"""Gangs that Kueue admits: a group of plain pods in one of its queues."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from launcher.controller.gang.backend_discovery import KUEUE_GROUP, BuiltinBackend
from launcher.controller.gang.gang_request import GangRequest
from launcher.core.errors import Conflict, FieldError, InvalidObject, NotFound
from launcher.core.framework import Framework
from launcher.core.names import BACKEND_LABEL, PodIdentityKey
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import PODS, DeleteOptions, MergePatch, Object, ResourceKind, Store
from launcher.store.selectors import LabelRequirement, Operator, Selector

log = logging.getLogger(__name__)

QUEUE_LABEL: Final = f"{KUEUE_GROUP}/queue-name"
GROUP_LABEL: Final = f"{KUEUE_GROUP}/pod-group-name"
TOTAL_COUNT_ANNOTATION: Final = f"{KUEUE_GROUP}/pod-group-total-count"
#: Set to "false" on one pod: the group finishes when all its pods have, and gets no replacements.
_RETRIABLE_ANNOTATION: Final = f"{KUEUE_GROUP}/retriable-in-group"


def queue_name(request: GangRequest, labels: Mapping[str, str]) -> str:
    """
    Returns the LocalQueue of the gang; empty without one. *labels* are those of the Framework.

    Raises InvalidObject if its pods have different queues.
    """
    pod_queues = {pod_labels.get(QUEUE_LABEL) or "" for pod_labels in request.labels()} - {""}
    queue = request.gang.queue or labels.get(QUEUE_LABEL) or ""
    if not queue and len(pod_queues) > 1:
        message = f"all tasks of a gang must have the same queue; found {' and '.join(sorted(pod_queues))}"
        raise InvalidObject((FieldError("spec.taskRoles", f"{message}: set spec.gang.queue"),))
    return queue or next(iter(pod_queues), "")


def pod_overlay(request: GangRequest, queue: str, group_size: int) -> PodOverlay:
    """Returns the overlay of every pod. After a rescale, new pods are queued without the group of *group_size* pods."""
    single = PodOverlay(labels={BACKEND_LABEL: BuiltinBackend.KUEUE.value, QUEUE_LABEL: queue})
    if group_size != request.total:
        return single
    # Kueue admits all pods of a group or none: it has no equivalent of gang.minTasks.
    return PodOverlay(
        labels={**single.labels, GROUP_LABEL: request.name},
        annotations={TOTAL_COUNT_ANNOTATION: str(request.total)},
    )


class Kueue:
    """Prepares and finishes gangs in queues of Kueue, which creates a Workload with the name of each group."""

    def __init__(self, store: Store, version: str) -> None:
        self._store = store
        self._queues = ResourceKind(KUEUE_GROUP, version, "localqueues", "LocalQueue")
        self._workloads = ResourceKind(KUEUE_GROUP, version, "workloads", "Workload")

    async def prepare(self, request: GangRequest, queue: str) -> Mapping[RoleName, PodOverlay]:
        """Returns the overlay of each role. Raises InvalidObject if the queue does not exist."""
        namespace = request.framework.namespace
        try:
            await self._store.get(self._queues, namespace, queue)
        except NotFound:
            message = f'Invalid value: "{queue}": namespace {namespace} has no LocalQueue of that name'
            raise InvalidObject((FieldError("spec.gang.queue", message),)) from None
        overlay = pod_overlay(request, queue, await self._group_size(request))
        return {role.name: overlay for role in request.roles}

    async def finish(self, framework: Framework) -> None:
        """Finishes the groups of the Framework and deletes their Workloads, which releases their quota."""
        has_group = LabelRequirement(GROUP_LABEL, Operator.EXISTS)
        groups: dict[str, list[Object]] = {}
        for pod in await self._pods(framework, Selector((has_group,))):
            groups.setdefault(pod["metadata"]["labels"][GROUP_LABEL], []).append(pod)
        for name, pods in groups.items():
            await self._finish_group(framework.namespace, name, pods)

    async def _finish_group(self, namespace: str, name: str, pods: list[Object]) -> None:
        # Kueue then expects no replacements and removes its finalizers from the pods.
        metadata = min(pods, key=is_deleted)["metadata"]
        annotations = {_RETRIABLE_ANNOTATION: "false"}
        patch = MergePatch({"metadata": {"uid": metadata["uid"], "annotations": annotations}})
        try:
            await self._store.patch(PODS, namespace, metadata["name"], patch)
        except (NotFound, Conflict) as error:
            log.info("pod already deleted", extra={"pod": metadata["name"], "error": str(error)})
        try:
            workload = await self._store.get(self._workloads, namespace, name)
            if _is_owned_by_any(workload, pods):
                uid = workload["metadata"]["uid"]
                await self._store.delete(self._workloads, namespace, name, DeleteOptions(uid=uid))
        except (NotFound, Conflict) as error:
            log.info("workload already deleted", extra={"workload": name, "error": str(error)})

    async def _group_size(self, request: GangRequest) -> int:
        """Returns the total count of the attempt's existing group, or of the new one."""
        selector = Selector.for_labels({GROUP_LABEL: request.name})
        for pod in await self._pods(request.framework, selector, limit=1):
            count = (pod["metadata"].get("annotations") or {}).get(TOTAL_COUNT_ANNOTATION) or ""
            if count.isascii() and count.isdigit():
                return int(count)
        return request.total

    async def _pods(self, framework: Framework, selector: Selector, limit: int | None = None) -> Any:
        framework_pods = Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: framework.name})
        page = await self._store.list(PODS, framework.namespace, framework_pods & selector, limit=limit)
        return page.items


def _is_owned_by_any(workload: Object, pods: list[Object]) -> bool:
    """Whether Kueue created the Workload for these pods; another Workload may have the same name."""
    uids = {pod["metadata"]["uid"] for pod in pods}
    return any(owner["uid"] in uids for owner in workload["metadata"].get("ownerReferences") or ())
