"""Gangs that the coscheduling plugin of scheduler-plugins schedules."""

from typing import Final

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object, ResourceKind

#: The name of the scheduler in its own chart. Pod templates set schedulerName if it has another name.
SCHEDULER: Final = "scheduler-plugins-scheduler"
KIND: Final = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")


def group_spec(request: GangRequest) -> Object:
    """Returns the ``spec`` of the PodGroup."""
    spec: Object = {"minMember": request.minimum}
    if resources := request.resources():
        spec["minResources"] = resources
    if request.gang.timeout_seconds is not None:
        spec["scheduleTimeoutSeconds"] = request.gang.timeout_seconds
    return spec


def pod_overlay(request: GangRequest, _role: RoleName) -> PodOverlay:
    """Returns the fields by which a pod belongs to the PodGroup."""
    return PodOverlay(
        labels={"scheduling.x-k8s.io/pod-group": request.name},
        defaults={"schedulerName": request.scheduler(SCHEDULER)},
    )


def min_member(group: Object) -> int:
    return int(group["spec"].get("minMember") or 0)


BACKEND: Final = PodGroupBackend(
    "scheduler-plugins", "scheduler-plugins", KIND, group_spec, pod_overlay, min_member
)
