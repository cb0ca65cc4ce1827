"""The fields of a pod that the planner uses, parsed from its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.json_access import as_object
from launcher.core.names import HEARTBEAT_ANNOTATION, TaskIdentity, task_identity
from launcher.core.owner_references import controller_uid
from launcher.core.pods.start_failure import StartFailure, start_failure
from launcher.core.pods.waiting_reason import CREATING_REASONS, restart_clause
from launcher.core.spec import PodName
from launcher.core.timestamps import Time, parse_rfc3339

#: Phases that a pod does not leave.
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
#: The waiting reason of a container that failed and is restarted later.
_BACK_OFF = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One version of a pod of a Framework."""

    name: PodName
    uid: str
    version: int
    #: The uid of the Framework that controls it.
    owner: str
    #: The task attempt it belongs to; None when its labels or annotations were changed.
    task: TaskIdentity | None
    phase: str
    created: Time
    node: str | None = None
    ip: str | None = None
    host_ip: str | None = None
    ready: bool = False
    #: The time of the deletion request; None if there was none.
    deletion_requested: Time | None = None
    #: Grace period 0 and no finalizers, and yet it exists: the deletion was interrupted and has to be repeated.
    deletion_stalled: bool = False
    #: Why the pod or one of its containers does not run, as reported by the cluster.
    pending_reason: str = ""
    #: The time of the last heartbeat that the task has sent; None if it has sent none.
    heartbeat: Time | None = None
    #: Why it can never start; None if it may.
    start_failure: StartFailure | None = None
    #: ``pod.status`` of a terminated pod, for the failure classifier.
    terminal_status: Mapping[str, Any] | None = None

    @property
    def deleting(self) -> bool:
        return self.deletion_requested is not None

    @property
    def terminated(self) -> bool:
        return self.phase in TERMINAL_PHASES


def is_deleted(obj: Mapping[str, Any]) -> bool:
    """Whether the deletion of the pod, or of any other object, was requested."""
    return "deletionTimestamp" in obj["metadata"]


def node_name(pod: Mapping[str, Any]) -> str | None:
    """Returns the node to which the pod is bound, or None."""
    name: str | None = as_object(pod.get("spec")).get("nodeName")
    return name


def has_terminated(obj: Mapping[str, Any]) -> bool:
    """Whether the pod is in a terminal phase."""
    phase = as_object(obj.get("status")).get("phase")
    return isinstance(phase, str) and phase in TERMINAL_PHASES


def pod_from_json(obj: Mapping[str, Any]) -> ObservedPod:
    """Parses a pod; missing or null fields are unknown."""
    meta = obj["metadata"]
    status = obj.get("status") or {}
    phase = status.get("phase") or "Pending"
    created = parse_rfc3339(meta["creationTimestamp"])
    pending_reason = _pending_reason(status) if phase in ("Pending", "Running") else ""
    return ObservedPod(
        name=PodName(meta["name"]),
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        owner=controller_uid(obj),
        task=task_identity(obj),
        phase=phase,
        created=created,
        node=node_name(obj),
        ip=status.get("podIP"),
        host_ip=status.get("hostIP"),
        ready=_is_true(status, "Ready"),
        deletion_requested=_deletion_request_time(meta),
        deletion_stalled=meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers"),
        pending_reason=pending_reason,
        heartbeat=_heartbeat(meta),
        start_failure=start_failure(status, created) if pending_reason else None,
        terminal_status=status if phase in TERMINAL_PHASES else None,
    )


def _is_true(status: Mapping[str, Any], condition: str) -> bool:
    return any(
        c.get("type") == condition and c.get("status") == "True" for c in status.get("conditions") or ()
    )


def _deletion_request_time(meta: Mapping[str, Any]) -> Time | None:
    """``deletionTimestamp`` is the end of the grace period; the request came that much earlier."""
    stamp = meta.get("deletionTimestamp")
    return parse_rfc3339(stamp) - (meta.get("deletionGracePeriodSeconds") or 0) if stamp else None


def _heartbeat(meta: Mapping[str, Any]) -> Time | None:
    text = (meta.get("annotations") or {}).get(HEARTBEAT_ANNOTATION)
    try:
        return parse_rfc3339(text) if text else None
    except ValueError:  # a user may write annotations
        return None


def _pending_reason(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason') or 'Unschedulable'}: {condition.get('message') or 'no node is suitable'}"
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), waiting.get("message")
        last = (container.get("lastState") or {}).get("terminated") or {}
        if reason == _BACK_OFF and last.get("exitCode"):
            # Without the message of the kubelet, whose back-off changes with every restart.
            return restart_clause(container.get("name", "?"), last["exitCode"], last.get("reason") or "")
        if reason and (message or reason not in CREATING_REASONS):
            return f"{reason}: {message or 'container ' + container.get('name', '?')}"
    return ""
