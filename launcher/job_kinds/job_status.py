"""The status of a job, in the words and in the order in which the training operator tells it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.planning.actions import ObjectEvent
from launcher.core.timestamps import Time, format_rfc3339
from launcher.job_kinds.job_kind import JobKind, type_name
from launcher.job_kinds.job_progress import JobEnd, Progress, ReplicaCounts

Json = dict[str, Any]

#: The last condition of a job that cannot be run as long as somebody does not change something. The operator has none.
BLOCKED = "Blocked"
_LABEL = "training.kubeflow.org/"
#: Conditions of which only one is there at a time.
_EITHER = ("Running", "Restarting", BLOCKED)
_ENDS = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class StatusContext:
    """Whose status is told, and when."""

    foreign: JobKind
    namespace: str
    name: str
    now: Time

    @property
    def called(self) -> str:
        return f"{self.foreign.family.kind} {self.namespace}/{self.name}"


def is_finished(status: Mapping[str, Any]) -> bool:
    """Whether the job has come to its end: nothing of its status changes any more."""
    return any(_holds(status, end) for end in _ENDS)


def running(story: StatusContext, status: Json, progress: Progress) -> Json:
    """The status of a job whose Framework has come that far."""
    if is_finished(status):
        return status
    new = _resumed(story, _begun(story, status))
    new = {**new, "replicaStatuses": _replicas(story, progress)}
    if progress.end is not None:
        return _finished(story, new, progress, progress.end)
    if progress.restarting:
        who = ", ".join(f"{number} {type_name(role)}" for role, number in progress.restarting.items())
        return _told(story, new, "Restarting", f"is restarting because {who} replica(s) failed.")
    if _leads(story.foreign, progress).active:
        return _told(story, new, "Running", "is running.")
    return _without(new, BLOCKED)


def suspended(story: StatusContext, status: Json) -> Json:
    """The status of a job that has no Framework, since it is not to run for now."""
    if is_finished(status):
        return status
    new = _without(_begun(story, status, starts=False), BLOCKED)
    new = {name: value for name, value in new.items() if name != "replicaStatuses"}
    if _condition(new, "Running") is not None or _condition(new, "Restarting") is not None:
        new = _told(story, new, "Running", "is suspended.", "Suspended", holds=False)
    return _told(story, new, "Suspended", "is suspended.")


def blocked(story: StatusContext, status: Json, reason: str, why: str) -> Json:
    """The status of a job that cannot be run, with the way out."""
    if is_finished(status):
        return status
    return _told(story, _begun(story, status), BLOCKED, f"is not run: {why}", reason)


def status_events(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ObjectEvent, ...]:
    """What has to be told of the way from one status to the next."""
    known = [(each["type"], each["status"], each["reason"]) for each in _conditions(before)]
    return tuple(
        ObjectEvent(each["reason"], each["message"], warning=each["type"] in ("Failed", BLOCKED))
        for each in _conditions(after)
        if (each["type"], each["status"], each["reason"]) not in known
        and (each["type"] != "Running" or each["status"] == "True")
    )


def same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the two tell the same, whenever somebody last looked."""
    return {**before, _LOOKED: None} == {**after, _LOOKED: None}


def looked(status: Json, now: Time) -> Json:
    """The status with the time at which it was written."""
    return {**status, _LOOKED: format_rfc3339(now)}


_LOOKED = "lastReconcileTime"


def _begun(story: StatusContext, status: Json, *, starts: bool = True) -> Json:
    new = status
    if _condition(new, "Created") is None:
        new = _told(story, new, "Created", "is created.")
    if starts and "startTime" not in new:
        new = {**new, "startTime": format_rfc3339(story.now)}
    return new


def _resumed(story: StatusContext, status: Json) -> Json:
    if not _holds(status, "Suspended"):
        return status
    new = {**status, "startTime": format_rfc3339(story.now)}
    return _told(story, new, "Suspended", "is resumed.", "Resumed", holds=False)


def _finished(story: StatusContext, status: Json, progress: Progress, end: JobEnd) -> Json:
    new = {**status, "completionTime": format_rfc3339(story.now)}
    if end.succeeded:
        done = {
            role: ReplicaCounts(0, each.active + each.succeeded, each.failed)
            for role, each in progress.counts.items()
        }
        new["replicaStatuses"] = _replicas(story, Progress(done, {}))
        return _told(story, new, "Succeeded", "successfully completed.")
    failed = progress.counts.get(end.role, ReplicaCounts()).failed if end.role is not None else 0
    because = f" because {failed} {type_name(end.role)} replica(s) failed" if end.role and failed else ""
    return _told(story, new, "Failed", f"has failed{because}: {end.message}")


def _replicas(story: StatusContext, progress: Progress) -> Json:
    return {type_name(role): _replica(story, role, count) for role, count in progress.counts.items()}


def _replica(story: StatusContext, role: str, count: ReplicaCounts) -> Json:
    marks = {"job-name": story.name, "operator-name": story.foreign.family.operator, "replica-type": role}
    numbers = {"active": count.active, "succeeded": count.succeeded, "failed": count.failed}
    selector = ",".join(f"{_LABEL}{name}={value}" for name, value in marks.items())
    return {**{name: number for name, number in numbers.items() if number}, "selector": selector}


def _leads(foreign: JobKind, progress: Progress) -> ReplicaCounts:
    """The replicas by which it is told whether the job runs: those in charge, or else the workers."""
    for role in (*foreign.family.chiefs, "worker"):
        for known, count in progress.counts.items():
            if known == role:
                return count
    return ReplicaCounts()


# Conditions: one of each type; what is new stands last, for that is where people look.


def _told(
    story: StatusContext, status: Json, type_: str, words: str, reason: str = "", *, holds: bool = True
) -> Json:
    """The status with that condition, unless it says as much already."""
    truth, reason = "True" if holds else "False", f"{story.foreign.family.kind}{reason or type_}"
    known = _condition(status, type_)
    message = f"{story.called} {words}"
    if known is not None and (known["status"], known["reason"]) == (truth, reason):
        message = message if type_ == BLOCKED else known["message"]
        if message == known["message"]:
            return status
    now = format_rfc3339(story.now)
    turned = known["lastTransitionTime"] if known is not None and known["status"] == truth else now
    condition = {
        "type": type_,
        "status": truth,
        "reason": reason,
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": turned,
    }
    dropped = {type_, *(_EITHER if type_ in _EITHER else ()), *((BLOCKED,) if type_ in _ENDS else ())}
    others = [
        _ended(each, now) if type_ in _ENDS else each
        for each in _conditions(status)
        if each["type"] not in dropped
    ]
    return {**status, "conditions": [*others, condition]}


def _ended(condition: Json, now: str) -> Json:
    """A job that has ended does not run."""
    if condition["type"] != "Running" or condition["status"] != "True":
        return condition
    return {**condition, "status": "False", "lastUpdateTime": now, "lastTransitionTime": now}


def _without(status: Json, type_: str) -> Json:
    if _condition(status, type_) is None:
        return status
    return {**status, "conditions": [each for each in _conditions(status) if each["type"] != type_]}


def _conditions(status: Mapping[str, Any]) -> Sequence[Json]:
    return status.get("conditions") or ()


def _condition(status: Mapping[str, Any], type_: str) -> Json | None:
    return next((each for each in _conditions(status) if each.get("type") == type_), None)


def _holds(status: Mapping[str, Any], type_: str) -> bool:
    known = _condition(status, type_)
    return known is not None and known.get("status") == "True"
