"""Gangs placed by the coscheduling plugin of scheduler-plugins."""

from typing import Final

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object, ResourceKind

#: What its own chart calls the scheduler; whoever has called it otherwise says so in the pods' templates.
SCHEDULER: Final = "scheduler-plugins-scheduler"
KIND: Final = ResourceKind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")


def group_spec(wanted: GangRequest) -> Object:
    """The ``spec`` of its PodGroup."""
    spec: Object = {"minMember": wanted.least}
    if resources := wanted.resources():
        spec["minResources"] = resources
    if wanted.gang.timeout_seconds is not None:
        spec["scheduleTimeoutSeconds"] = wanted.gang.timeout_seconds
    return spec


def extras(wanted: GangRequest, _role: RoleName) -> PodOverlay:
    """What makes a pod one of the group."""
    return PodOverlay(
        labels={"scheduling.x-k8s.io/pod-group": wanted.name},
        defaults={"schedulerName": wanted.scheduler(SCHEDULER)},
    )


def least(group: Object) -> int:
    return int(group["spec"].get("minMember") or 0)


SHAPE: Final = PodGroupBackend("scheduler-plugins", "scheduler-plugins", KIND, group_spec, extras, least)
