"""A pod as the plan sees it: the few facts that decide anything, taken from its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.names import TaskIdentity, task_identity
from launcher.core.owner_references import controller_of
from launcher.core.spec import PodName
from launcher.core.timestamps import Time, parse_rfc3339
from launcher.core.validation.pod_template import as_object

#: Phases that a pod never leaves.
ENDED = frozenset({"Succeeded", "Failed"})
#: Reasons of containers that wait for nothing but their start, unless there is a message too.
_STARTING = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod of ours, at one version."""

    name: PodName
    uid: str
    version: int
    #: The uid of the Framework that controls it.
    owner: str
    #: Which task attempt it serves; None when its marks were tampered with.
    task: TaskIdentity | None
    phase: str
    created: Time
    node: str | None = None
    ip: str | None = None
    host_ip: str | None = None
    ready: bool = False
    #: When its deletion was asked for; None while nobody has.
    deletion_asked: Time | None = None
    #: Nothing holds up its deletion, and yet it is there: whoever deleted it was cut off half-way.
    deletion_stalled: bool = False
    #: Why a pod or one of its containers does not run, in the cluster's words.
    pending_reason: str = ""
    #: ``pod.status`` of a pod that ended, for its classification.
    end: Mapping[str, Any] | None = None

    @property
    def deleting(self) -> bool:
        return self.deletion_asked is not None

    @property
    def ended(self) -> bool:
        return self.phase in ENDED


def has_terminated(obj: Mapping[str, Any]) -> bool:
    """Whether that pod has ended and will never run again."""
    phase = as_object(obj.get("status")).get("phase")
    return isinstance(phase, str) and phase in ENDED


def pod_from_json(obj: Mapping[str, Any]) -> ObservedPod:
    """The pod's facts. Fields that are missing or null read as not known yet."""
    meta = obj["metadata"]
    status = obj.get("status") or {}
    phase = status.get("phase") or "Pending"
    return ObservedPod(
        name=PodName(meta["name"]),
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        owner=controller_of(meta).get("uid", ""),
        task=task_identity(obj),
        phase=phase,
        created=parse_rfc3339(meta["creationTimestamp"]),
        node=(obj.get("spec") or {}).get("nodeName"),
        ip=status.get("podIP"),
        host_ip=status.get("hostIP"),
        ready=_holds(status, "Ready"),
        deletion_asked=_deletion_asked(meta),
        deletion_stalled=meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers"),
        pending_reason=_hindrance(status) if phase in ("Pending", "Running") else "",
        end=status if phase in ENDED else None,
    )


def _holds(status: Mapping[str, Any], condition: str) -> bool:
    return any(
        c.get("type") == condition and c.get("status") == "True" for c in status.get("conditions") or ()
    )


def _deletion_asked(meta: Mapping[str, Any]) -> Time | None:
    """``deletionTimestamp`` is when the grace ends; the asking came that grace earlier."""
    stamp = meta.get("deletionTimestamp")
    return parse_rfc3339(stamp) - (meta.get("deletionGracePeriodSeconds") or 0) if stamp else None


def _hindrance(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return (
                f"{condition.get('reason') or 'Unschedulable'}: {condition.get('message') or 'no node fits'}"
            )
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message")
        if reason and (message or reason not in _STARTING):
            return f"{reason}: {message or 'container ' + container.get('name', '?')}{_last_exit(container)}"
    return ""


def _last_exit(container: Mapping[str, Any]) -> str:
    """How the container ended before it began to wait; empty when it has not run."""
    last = (container.get("lastState") or {}).get("terminated") or {}
    if "exitCode" not in last:
        return ""
    return f"; last exit code {last['exitCode']}" + (f" ({last['reason']})" if last.get("reason") else "")
