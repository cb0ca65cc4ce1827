"""The status of a job, with the conditions, messages and order of the training operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.events import ObjectEvent
from launcher.core.spec import RoleName
from launcher.core.timestamps import Time, format_rfc3339
from launcher.job_kinds.job_kind import JobKind, type_name
from launcher.job_kinds.job_progress import JobEnd, Progress, ReplicaCounts

Json = dict[str, Any]

#: The condition of a job that cannot run until its spec or its cluster changes. The training operator has none.
BLOCKED = "Blocked"
_LABEL = "training.kubeflow.org/"
#: Mutually exclusive conditions.
_EXCLUSIVE = ("Running", "Restarting", BLOCKED)
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class StatusContext:
    """The job, and the current time."""

    job_kind: JobKind
    namespace: str
    name: str
    now: Time

    @property
    def job_name(self) -> str:
        return f"{self.job_kind.family.kind} {self.namespace}/{self.name}"


def is_finished(status: Mapping[str, Any]) -> bool:
    """Whether the job is finished; its status no longer changes."""
    return any(_is_true(status, type_) for type_ in _FINISHED)


def running_status(context: StatusContext, status: Json, progress: Progress) -> Json:
    """The status of a job with that progress."""
    if is_finished(status):
        return status
    new = _with_resume(context, _with_start(context, status))
    new = {**new, "replicaStatuses": _replicas(context, progress)}
    if progress.end is not None:
        return _finished_status(context, new, progress, progress.end)
    if progress.restarting:
        replicas = ", ".join(f"{number} {type_name(role)}" for role, number in progress.restarting.items())
        return _with_condition(
            context, new, "Restarting", f"is restarting because {replicas} replica(s) failed."
        )
    if _leading_replicas(context.job_kind, progress).active:
        return _with_condition(context, new, "Running", "is running.")
    return _without_condition(new, BLOCKED)


def suspended_status(context: StatusContext, status: Json) -> Json:
    """The status of a suspended job, which has no Framework."""
    if is_finished(status):
        return status
    new = _without_condition(_with_start(context, status, is_starting=False), BLOCKED)
    new = {name: value for name, value in new.items() if name != "replicaStatuses"}
    if _condition(new, "Running") is not None or _condition(new, "Restarting") is not None:
        new = _with_condition(context, new, "Running", "is suspended.", "Suspended", is_true=False)
    return _with_condition(context, new, "Suspended", "is suspended.")


def blocked_status(context: StatusContext, status: Json, reason: str, message: str) -> Json:
    """The status of a job that cannot run."""
    if is_finished(status):
        return status
    return _with_condition(context, _with_start(context, status), BLOCKED, f"cannot run: {message}", reason)


def status_events(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ObjectEvent, ...]:
    """Events for the conditions that changed."""
    unchanged = [(old["type"], old["status"], old["reason"]) for old in _conditions(before)]
    return tuple(
        ObjectEvent(new["reason"], new["message"], warning=new["type"] in ("Failed", BLOCKED))
        for new in _conditions(after)
        if (new["type"], new["status"], new["reason"]) not in unchanged
        and (new["type"] != "Running" or new["status"] == "True")
    )


def is_same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the statuses are equal except for the time of the last reconcile."""
    return {**before, _RECONCILE_TIME: None} == {**after, _RECONCILE_TIME: None}


def with_reconcile_time(status: Json, now: Time) -> Json:
    """The status with the time of the reconcile."""
    return {**status, _RECONCILE_TIME: format_rfc3339(now)}


_RECONCILE_TIME = "lastReconcileTime"


def _with_start(context: StatusContext, status: Json, *, is_starting: bool = True) -> Json:
    new = status
    if _condition(new, "Created") is None:
        new = _with_condition(context, new, "Created", "is created.")
    if is_starting and "startTime" not in new:
        new = {**new, "startTime": format_rfc3339(context.now)}
    return new


def _with_resume(context: StatusContext, status: Json) -> Json:
    if not _is_true(status, "Suspended"):
        return status
    new = {**status, "startTime": format_rfc3339(context.now)}
    return _with_condition(context, new, "Suspended", "is resumed.", "Resumed", is_true=False)


def _finished_status(context: StatusContext, status: Json, progress: Progress, end: JobEnd) -> Json:
    new = {**status, "completionTime": format_rfc3339(context.now)}
    if end.succeeded:
        counts = {
            role: ReplicaCounts(0, count.active + count.succeeded, count.failed)
            for role, count in progress.counts.items()
        }
        new["replicaStatuses"] = _replicas(context, Progress(counts, {}))
        return _with_condition(context, new, "Succeeded", "successfully completed.")
    failed = progress.counts.get(end.role, ReplicaCounts()).failed if end.role is not None else 0
    cause = f" because {failed} {type_name(end.role)} replica(s) failed" if end.role and failed else ""
    return _with_condition(context, new, "Failed", f"has failed{cause}: {end.message}")


def _replicas(context: StatusContext, progress: Progress) -> Json:
    return {type_name(role): _replica(context, role, count) for role, count in progress.counts.items()}


def _replica(context: StatusContext, role: str, count: ReplicaCounts) -> Json:
    labels = {
        "job-name": context.name,
        "operator-name": context.job_kind.family.operator,
        "replica-type": role,
    }
    numbers = {"active": count.active, "succeeded": count.succeeded, "failed": count.failed}
    selector = ",".join(f"{_LABEL}{name}={value}" for name, value in labels.items())
    return {**{name: number for name, number in numbers.items() if number}, "selector": selector}


def _leading_replicas(job_kind: JobKind, progress: Progress) -> ReplicaCounts:
    """The replicas that decide whether the job is Running: the chief, or else the workers."""
    for role in (*job_kind.family.chiefs, "worker"):
        if (count := progress.counts.get(RoleName(role))) is not None:
            return count
    return ReplicaCounts()


# Conditions: one of each type, the latest last, as in the training operator.


def _with_condition(
    context: StatusContext, status: Json, type_: str, message: str, reason: str = "", *, is_true: bool = True
) -> Json:
    """The status with that condition; unchanged if it has it already."""
    value, reason = "True" if is_true else "False", f"{context.job_kind.family.kind}{reason or type_}"
    old = _condition(status, type_)
    text = f"{context.job_name} {message}"
    unchanged = old is not None and (old["status"], old["reason"]) == (value, reason)
    if old is not None and unchanged and (type_ != BLOCKED or text == old["message"]):
        return status
    now = format_rfc3339(context.now)
    transition_time = old["lastTransitionTime"] if old is not None and old["status"] == value else now
    condition = {
        "type": type_,
        "status": value,
        "reason": reason,
        "message": text,
        "lastUpdateTime": now,
        "lastTransitionTime": transition_time,
    }
    replaced_types = {
        type_,
        *(_EXCLUSIVE if type_ in _EXCLUSIVE else ()),
        *((BLOCKED,) if type_ in _FINISHED else ()),
    }
    others = [
        _after_finish(other, now) if type_ in _FINISHED else other
        for other in _conditions(status)
        if other["type"] not in replaced_types
    ]
    return {**status, "conditions": [*others, condition]}


def _after_finish(condition: Json, now: str) -> Json:
    """The condition after the job has finished: no longer Running."""
    if condition["type"] != "Running" or condition["status"] != "True":
        return condition
    return {**condition, "status": "False", "lastUpdateTime": now, "lastTransitionTime": now}


def _without_condition(status: Json, type_: str) -> Json:
    if _condition(status, type_) is None:
        return status
    return {**status, "conditions": [other for other in _conditions(status) if other["type"] != type_]}


def _conditions(status: Mapping[str, Any]) -> Sequence[Json]:
    return status.get("conditions") or ()


def _condition(status: Mapping[str, Any], type_: str) -> Json | None:
    return next((condition for condition in _conditions(status) if condition.get("type") == type_), None)


def _is_true(status: Mapping[str, Any], type_: str) -> bool:
    condition = _condition(status, type_)
    return condition is not None and condition.get("status") == "True"
