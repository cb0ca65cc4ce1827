"""Gangs placed by Kubernetes' own scheduler, in each of the shapes that its API has had."""

from typing import Final

from launcher.controller.gang.gang_request import DEFAULT_SCHEDULER, Wanted
from launcher.controller.gang.pod_groups import Shape
from launcher.core.pods.overlay import Extras
from launcher.core.spec import RoleName
from launcher.store.interface import Kind, Object

GROUP: Final = "scheduling.k8s.io"
#: The one pod group of a Workload, where groups stand inside of one.
_INNER: Final = "gang"


def _pod_group(wanted: Wanted) -> Object:
    return {"schedulingPolicy": {"gang": {"minCount": wanted.least}}}


def _pod_group_least(group: Object) -> int:
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def _pod_group_extras(wanted: Wanted, _role: RoleName) -> Extras:
    wanted.scheduler(DEFAULT_SCHEDULER)
    return Extras(spec={"schedulingGroup": {"podGroupName": wanted.name}})


def _workload(wanted: Wanted) -> Object:
    return {"podGroups": [{"name": _INNER, "policy": {"gang": {"minCount": wanted.least}}}]}


def _workload_least(group: Object) -> int:
    return int(group["spec"]["podGroups"][0]["policy"]["gang"]["minCount"])


def _workload_extras(wanted: Wanted, _role: RoleName) -> Extras:
    wanted.scheduler(DEFAULT_SCHEDULER)
    return Extras(spec={"workloadRef": {"name": wanted.name, "podGroup": _INNER}})


#: Since Kubernetes 1.37; a group can be told another number there.
BETA: Final = Shape(
    "kubernetes",
    "Kubernetes' own scheduler",
    Kind(GROUP, "v1beta1", "podgroups", "PodGroup"),
    _pod_group,
    _pod_group_extras,
    _pod_group_least,
)
#: Of Kubernetes 1.36.
SECOND: Final = Shape(
    "kubernetes",
    "Kubernetes' own scheduler",
    Kind(GROUP, "v1alpha2", "podgroups", "PodGroup"),
    _pod_group,
    _pod_group_extras,
    _pod_group_least,
    can_change=False,
)
#: Of Kubernetes 1.35.
FIRST: Final = Shape(
    "kubernetes",
    "Kubernetes' own scheduler",
    Kind(GROUP, "v1alpha1", "workloads", "Workload"),
    _workload,
    _workload_extras,
    _workload_least,
    can_change=False,
)
#: The newest first.
SHAPES: Final = (BETA, SECOND, FIRST)
