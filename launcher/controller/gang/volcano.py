"""Gangs that Volcano schedules."""

from typing import Final

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object, ResourceKind

SCHEDULER: Final = "volcano"
KIND: Final = ResourceKind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")

#: Phases before Volcano admits the PodGroup, in which no pods should be created.
_NOT_ADMITTED: Final = ("", "Pending")


def group_spec(request: GangRequest) -> Object:
    """Returns the ``spec`` of the PodGroup."""
    spec: Object = {"minMember": request.minimum}
    if resources := request.resources():
        # Without it Volcano admits every PodGroup at once.
        spec["minResources"] = resources
    if request.gang.queue:
        spec["queue"] = request.gang.queue
    if priority_class := request.priority_class():
        spec["priorityClassName"] = priority_class
    return spec


def pod_overlay(request: GangRequest, role: RoleName) -> PodOverlay:
    """Returns the fields by which a pod belongs to the PodGroup; for other pods Volcano creates groups of their own."""
    return PodOverlay(
        annotations={"scheduling.k8s.io/group-name": request.name, "volcano.sh/task-spec": role},
        defaults={"schedulerName": request.scheduler(SCHEDULER)},
    )


def min_member(group: Object) -> int:
    return int(group["spec"].get("minMember") or 0)


def blocked_reason(group: Object) -> str:
    """Returns the reason why no pods may be created yet; empty if Volcano has admitted the PodGroup."""
    status = group.get("status") or {}
    phase = status.get("phase") or ""
    if phase not in _NOT_ADMITTED:
        return ""
    conditions = status.get("conditions") or [{}]
    message = conditions[-1].get("message") or conditions[-1].get("reason")
    suffix = f": {message}" if message else ""
    queue = group["spec"].get("queue") or "default"
    return (
        f"waiting for Volcano to admit it to queue {queue}{suffix}"
        if phase
        else "waiting for Volcano to process it"
    )


BACKEND: Final = PodGroupBackend(
    "volcano",
    "Volcano",
    KIND,
    group_spec,
    pod_overlay,
    min_member,
    counts_completed_pods=True,
    blocked_reason=blocked_reason,
)
