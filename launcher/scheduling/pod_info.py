"""Scheduling data of pods, read from their JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from launcher.core.names import GANG_ANNOTATION, GANG_MIN_ANNOTATION
from launcher.core.owner_references import controller_uid
from launcher.core.pods.observed_pod import is_deleted
from launcher.core.pods.start_failure import EXCEEDS_CAPACITY
from launcher.core.timestamps import parse_rfc3339
from launcher.scheduling.cluster_state import GangMembership, PodInfo
from launcher.scheduling.pod_requirements import pod_requirements
from launcher.store.interface import Object, key_of

_MAX_MEMBERS: Final = 10**6

POD_SCHEDULED: Final = "PodScheduled"
#: The name of the default scheduler of Kubernetes, and the only scheduler of local mode.
SCHEDULER_NAME: Final = "default-scheduler"
#: The priority classes of every cluster. Other classes are not stored and count as 0.
_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


@dataclass(frozen=True, slots=True)
class ScheduledCondition:
    """Reason and message of a pod's PodScheduled condition."""

    reason: str
    message: str
    #: No node could run the pod even if it were empty, which is a condition of its own.
    exceeds_capacity: bool = False


@dataclass(frozen=True, slots=True)
class PodView:
    """What the scheduler reads from a pod without a node, except its requirements."""

    uid: str
    version: str
    gated: bool
    priority: int
    #: Seconds since 1970.
    created: float
    #: ``spec.schedulerName`` if that scheduler does not exist here, otherwise empty.
    missing_scheduler: str
    #: The current PodScheduled condition, or None.
    condition: ScheduledCondition | None
    #: The lastTransitionTime of PodScheduled, and of the condition that no node has the capacity, or empty.
    condition_since: str
    exceeds_since: str
    #: All other conditions.
    conditions: Sequence[Mapping[str, Any]]


def needs_node(pod: Object) -> bool:
    """Whether the pod has to be scheduled. Its schedulerName does not matter: local mode has one scheduler."""
    return not is_deleted(pod)


def pod_view(pod: Object) -> PodView:
    meta, spec = pod["metadata"], pod["spec"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    condition, exceeds = (
        next((candidate for candidate in conditions if candidate.get("type") == kind), None)
        for kind in (POD_SCHEDULED, EXCEEDS_CAPACITY)
    )
    scheduler = spec.get("schedulerName") or SCHEDULER_NAME
    return PodView(
        uid=meta["uid"],
        version=meta["resourceVersion"],
        gated=bool(spec.get("schedulingGates")),
        priority=_priority(spec),
        created=parse_rfc3339(meta["creationTimestamp"]),
        missing_scheduler="" if scheduler == SCHEDULER_NAME else scheduler,
        condition=ScheduledCondition(
            condition.get("reason") or "", condition.get("message") or "", exceeds is not None
        )
        if condition is not None
        else None,
        condition_since=(condition or {}).get("lastTransitionTime") or "",
        exceeds_since=(exceeds or {}).get("lastTransitionTime") or "",
        conditions=[
            candidate for candidate in conditions if candidate is not condition and candidate is not exceeds
        ],
    )


def _priority(spec: Mapping[str, Any]) -> int:
    priority = spec.get("priority")
    if priority is not None and not isinstance(priority, int):
        raise ValueError(f"spec.priority: {priority!r} must be an integer")
    return priority or _PRIORITIES.get(spec.get("priorityClassName") or "", 0)


def pod_info(pod: Object) -> PodInfo:
    """Returns the pod's scheduling data. Raises ValueError if its requirements are invalid."""
    meta = pod["metadata"]
    return PodInfo(
        key=key_of(pod),
        uid=meta["uid"],
        labels=meta.get("labels") or {},
        requirements=pod_requirements(pod),
        group=controller_uid(pod) or meta["uid"],
        terminating=is_deleted(pod),
        gang=gang_membership(pod),
    )


def gang_membership(pod: Object) -> GangMembership | None:
    """Returns the gang named in the pod's annotations, or None. Raises ValueError if they are invalid."""
    annotations = pod["metadata"].get("annotations") or {}
    name, min_members = annotations.get(GANG_ANNOTATION), annotations.get(GANG_MIN_ANNOTATION, "")
    if not name:
        return None
    if not (min_members.isascii() and min_members.isdecimal() and 0 < int(min_members) < _MAX_MEMBERS):
        raise ValueError(
            f"metadata.annotations[{GANG_MIN_ANNOTATION}]: {min_members!r} must be a number of pods, from 1 on"
        )
    return GangMembership(name, int(min_members))
