"""Gangs placed by Volcano."""

from typing import Final

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object, ResourceKind

SCHEDULER: Final = "volcano"
KIND: Final = ResourceKind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")

#: Phases in which Volcano has not let the group in: pods would only be in its way.
_NOT_IN: Final = ("", "Pending")


def group_spec(wanted: GangRequest) -> Object:
    """The ``spec`` of its PodGroup."""
    spec: Object = {"minMember": wanted.least}
    if resources := wanted.resources():
        # What it is let in by: without it, every group is at once.
        spec["minResources"] = resources
    if wanted.gang.queue:
        spec["queue"] = wanted.gang.queue
    if priority_class := wanted.priority_class():
        spec["priorityClassName"] = priority_class
    return spec


def extras(wanted: GangRequest, role: RoleName) -> PodOverlay:
    """What makes a pod one of the group; one without the annotation gets a group of its own from Volcano."""
    return PodOverlay(
        annotations={"scheduling.k8s.io/group-name": wanted.name, "volcano.sh/task-spec": role},
        defaults={"schedulerName": wanted.scheduler(SCHEDULER)},
    )


def least(group: Object) -> int:
    return int(group["spec"].get("minMember") or 0)


def holds(group: Object) -> str:
    """Why Volcano wants no pods yet; empty when it does."""
    status = group.get("status") or {}
    phase = status.get("phase") or ""
    if phase not in _NOT_IN:
        return ""
    told = [one.get("message") or one.get("reason") or "" for one in status.get("conditions") or ()]
    why = f": {told[-1]}" if told and told[-1] else ""
    queue = group["spec"].get("queue") or "default"
    return (
        f"Volcano has not let it into queue {queue} yet{why}" if phase else "Volcano has not looked at it yet"
    )


SHAPE: Final = PodGroupBackend(
    "volcano", "Volcano", KIND, group_spec, extras, least, counts_ended=True, blocked_reason=holds
)
