"""Gangs that Kubernetes' own scheduler schedules, in each version of its API."""

from typing import Final

from launcher.controller.gang.gang_request import DEFAULT_SCHEDULER, GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object, ResourceKind

GROUP: Final = "scheduling.k8s.io"
#: The only pod group of a Workload of v1alpha1, in which pod groups are not objects.
_POD_GROUP_NAME: Final = "gang"


def _group_spec(request: GangRequest) -> Object:
    return {"schedulingPolicy": {"gang": {"minCount": request.minimum}}}


def _group_min_member(group: Object) -> int:
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def _group_pod_overlay(request: GangRequest, _role: RoleName) -> PodOverlay:
    request.scheduler(DEFAULT_SCHEDULER)
    return PodOverlay(spec={"schedulingGroup": {"podGroupName": request.name}})


def _workload_spec(request: GangRequest) -> Object:
    return {"podGroups": [{"name": _POD_GROUP_NAME, "policy": {"gang": {"minCount": request.minimum}}}]}


def _workload_min_member(workload: Object) -> int:
    return int(workload["spec"]["podGroups"][0]["policy"]["gang"]["minCount"])


def _workload_pod_overlay(request: GangRequest, _role: RoleName) -> PodOverlay:
    request.scheduler(DEFAULT_SCHEDULER)
    return PodOverlay(spec={"workloadRef": {"name": request.name, "podGroup": _POD_GROUP_NAME}})


#: Since Kubernetes 1.37; minCount can be changed.
V1BETA1: Final = PodGroupBackend(
    "kubernetes",
    "Kubernetes' own scheduler",
    ResourceKind(GROUP, "v1beta1", "podgroups", "PodGroup"),
    _group_spec,
    _group_pod_overlay,
    _group_min_member,
)
#: Kubernetes 1.36.
V1ALPHA2: Final = PodGroupBackend(
    "kubernetes",
    "Kubernetes' own scheduler",
    ResourceKind(GROUP, "v1alpha2", "podgroups", "PodGroup"),
    _group_spec,
    _group_pod_overlay,
    _group_min_member,
    min_member_is_mutable=False,
)
#: Kubernetes 1.35.
V1ALPHA1: Final = PodGroupBackend(
    "kubernetes",
    "Kubernetes' own scheduler",
    ResourceKind(GROUP, "v1alpha1", "workloads", "Workload"),
    _workload_spec,
    _workload_pod_overlay,
    _workload_min_member,
    min_member_is_mutable=False,
)
#: The newest first.
BACKENDS: Final = (V1BETA1, V1ALPHA2, V1ALPHA1)
