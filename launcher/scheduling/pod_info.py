"""A pod as the scheduler reads it from its JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from launcher.core.owner_references import controller_of
from launcher.core.timestamps import parse_rfc3339
from launcher.scheduling.cluster_state import GangMembership, PodInfo
from launcher.scheduling.pod_requirements import demand_of
from launcher.store.interface import Object, key_of

#: On each pod of a gang: what is the same for all of it, and for nobody else; and how many are placed together.
GANG: Final = "launcher.microsoft.com/gang"
GANG_MIN: Final = "launcher.microsoft.com/gang-min"
_MOST: Final = 10**6

SCHEDULED: Final = "PodScheduled"
#: The name that Kubernetes gives its own scheduler; there is no other in local mode.
SCHEDULER_NAME: Final = "default-scheduler"
#: The classes that every cluster has; others are not stored here, and count as none.
_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


@dataclass(frozen=True, slots=True)
class ScheduledCondition:
    """What a pod's condition says of its way to a node."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodView:
    """What has to be known of a pod without a node to give it one, or to tell why there is none."""

    uid: str
    version: str
    gated: bool
    priority: int
    #: Seconds since 1970.
    created: float
    #: ``spec.schedulerName`` when it names a scheduler that does not exist here; else empty.
    missing_scheduler: str
    #: What was last told about it; None for nothing.
    told: ScheduledCondition | None
    #: Since when that has been so; empty for nothing.
    told_since: str
    #: The other conditions.
    conditions: Sequence[Mapping[str, Any]]


def is_schedulable(pod: Object) -> bool:
    """Whether the pod is to get a node, whichever scheduler it names: local mode has only one."""
    return "deletionTimestamp" not in pod["metadata"]


def view_of(pod: Object) -> PodView:
    meta, spec = pod["metadata"], pod["spec"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = next((one for one in conditions if one.get("type") == SCHEDULED), None)
    scheduler = spec.get("schedulerName") or SCHEDULER_NAME
    return PodView(
        uid=meta["uid"],
        version=meta["resourceVersion"],
        gated=bool(spec.get("schedulingGates")),
        priority=_priority(spec),
        created=parse_rfc3339(meta["creationTimestamp"]),
        missing_scheduler="" if scheduler == SCHEDULER_NAME else scheduler,
        told=ScheduledCondition(told.get("reason") or "", told.get("message") or "")
        if told is not None
        else None,
        told_since=(told or {}).get("lastTransitionTime") or "",
        conditions=[one for one in conditions if one is not told],
    )


def _priority(spec: Mapping[str, Any]) -> int:
    given = spec.get("priority")
    if given is not None and not isinstance(given, int):
        raise ValueError(f"spec.priority: {given!r} is no whole number")
    return given or _PRIORITIES.get(spec.get("priorityClassName") or "", 0)


def guest_of(pod: Object) -> PodInfo:
    """The pod as those see it who decide where it goes. Raises ValueError when what it asks for makes no sense."""
    meta = pod["metadata"]
    return PodInfo(
        key=key_of(pod),
        uid=meta["uid"],
        labels=meta.get("labels") or {},
        demand=demand_of(pod),
        group=controller_of(meta).get("uid", meta["uid"]),
        leaving="deletionTimestamp" in meta,
        gang=gang_of(pod),
    )


def gang_of(pod: Object) -> GangMembership | None:
    """The gang that the pod says it belongs to; None for none. Raises ValueError when that makes no sense."""
    annotations = pod["metadata"].get("annotations") or {}
    name, need = annotations.get(GANG), annotations.get(GANG_MIN, "")
    if not name:
        return None
    if not (need.isascii() and need.isdecimal() and 0 < int(need) < _MOST):
        raise ValueError(f"metadata.annotations[{GANG_MIN}]: {need!r} must be a number of pods, from 1 on")
    return GangMembership(name, int(need))
