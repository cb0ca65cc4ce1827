"""Gangs placed by Kubernetes' own scheduler, in each of the shapes that its API has had."""

from typing import Final

from launcher.controller.gang.gang_request import DEFAULT_SCHEDULER, GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object, ResourceKind

GROUP: Final = "scheduling.k8s.io"
#: The one pod group of a Workload, where groups stand inside of one.
_INNER: Final = "gang"


def _pod_group(wanted: GangRequest) -> Object:
    return {"schedulingPolicy": {"gang": {"minCount": wanted.least}}}


def _pod_group_least(group: Object) -> int:
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def _pod_group_extras(wanted: GangRequest, _role: RoleName) -> PodOverlay:
    wanted.scheduler(DEFAULT_SCHEDULER)
    return PodOverlay(spec={"schedulingGroup": {"podGroupName": wanted.name}})


def _workload(wanted: GangRequest) -> Object:
    return {"podGroups": [{"name": _INNER, "policy": {"gang": {"minCount": wanted.least}}}]}


def _workload_least(group: Object) -> int:
    return int(group["spec"]["podGroups"][0]["policy"]["gang"]["minCount"])


def _workload_extras(wanted: GangRequest, _role: RoleName) -> PodOverlay:
    wanted.scheduler(DEFAULT_SCHEDULER)
    return PodOverlay(spec={"workloadRef": {"name": wanted.name, "podGroup": _INNER}})


#: Since Kubernetes 1.37; a group can be told another number there.
BETA: Final = PodGroupBackend(
    "kubernetes",
    "Kubernetes' own scheduler",
    ResourceKind(GROUP, "v1beta1", "podgroups", "PodGroup"),
    _pod_group,
    _pod_group_extras,
    _pod_group_least,
)
#: Of Kubernetes 1.36.
SECOND: Final = PodGroupBackend(
    "kubernetes",
    "Kubernetes' own scheduler",
    ResourceKind(GROUP, "v1alpha2", "podgroups", "PodGroup"),
    _pod_group,
    _pod_group_extras,
    _pod_group_least,
    can_change=False,
)
#: Of Kubernetes 1.35.
FIRST: Final = PodGroupBackend(
    "kubernetes",
    "Kubernetes' own scheduler",
    ResourceKind(GROUP, "v1alpha1", "workloads", "Workload"),
    _workload,
    _workload_extras,
    _workload_least,
    can_change=False,
)
#: The newest first.
SHAPES: Final = (BETA, SECOND, FIRST)
