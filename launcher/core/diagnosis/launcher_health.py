"""The launcher itself: Frameworks that it has not processed, and what prevents it."""

import math
from collections.abc import Iterator
from typing import Final

from launcher.core import causes
from launcher.core.diagnosis.finding import Evidence, Problem, counted
from launcher.core.diagnosis.inputs import (
    Context,
    DiagnosisInput,
    TaskView,
    last_event,
    parsed_time,
    shortened,
)
from launcher.core.json_access import as_list, as_object, text
from launcher.core.status import State
from launcher.core.timestamps import Time

#: A launcher processes a new Framework, and a change, within this time.
_PROCESSING_SECONDS: Final = 15
#: Age of events that still matter.
_EVENT_SECONDS: Final = 600
#: A leader that has not renewed its Lease for this time has stopped; it renews every two seconds.
_RENEWAL_SECONDS: Final = 10
#: A Framework is reconciled within this time.
_BACKLOG_SECONDS: Final = 10
_MAX_ERRORS: Final = 5


def explain_unreadable(source: DiagnosisInput) -> Problem:
    """A Framework whose status cannot be parsed."""
    metadata = as_object(source.object.get("metadata"))
    return Problem(
        causes.UNREADABLE_STATUS,
        "the status was not written by a launcher, so the Framework is not processed",
        "delete the Framework and submit it again",
        (Evidence(f"framework/{metadata.get('name')}", "status", shortened(source.object.get("status"))),),
    )


def explain_malformed(view: TaskView) -> Problem:
    """A pod with fields of wrong types, which was stored without validation."""
    return Problem(
        causes.MALFORMED_POD,
        "the pod has fields of wrong types, so it cannot be explained",
        f"delete it: {view.context.kubectl('delete pod', view.pod_name)}",
        (view.evidence("metadata.name", view.pod_name),),
    )


def explain_launcher(context: Context) -> Iterator[Problem]:
    """Problems of the launcher that delay this Framework."""
    state = context.source.launcher
    if state.disk_full:
        yield Problem(
            causes.LAUNCHER_DISK_FULL,
            f"the launcher rejects writes: {state.disk_full}",
            "free disk space in the launcher's data directory; objects can still be deleted",
            (Evidence("launcher", "/readyz", shortened(state.disk_full)),),
        )
    if _is_finished(context):
        return
    for explain in (_no_leader, _throttled, _backlog):
        if (problem := explain(context)) is not None:
            yield problem
    if (problem := _internal_error(context)) is not None or (problem := _unprocessed(context)) is not None:
        yield problem


def _is_finished(context: Context) -> bool:
    """Whether the launcher has nothing to do for the Framework."""
    framework, status = context.framework, context.framework.status
    return (
        status is not None
        and status.state is State.COMPLETED
        and status.observed_generation >= framework.generation
        and not framework.deleting
    )


def _no_leader(context: Context) -> Problem | None:
    leadership = context.source.launcher.leadership
    if leadership is None or (leadership.holder and leadership.unrenewed_seconds < _RENEWAL_SECONDS):
        return None
    if leadership.holder:
        what = (
            f"no launcher leads: {leadership.holder} has not renewed its Lease for {leadership.unrenewed_seconds}s; "
            f"another replica leads after {leadership.duration_seconds}s"
        )
    else:
        what = "no launcher leads: the Lease has no holder"
    return Problem(causes.NO_LEADER, what, f"check the replicas: {_replicas(context)}", _leader(context))


def _throttled(context: Context) -> Problem | None:
    seconds = context.source.launcher.throttled_seconds
    if seconds <= 0:
        return None
    return Problem(
        causes.THROTTLED,
        f"the API server limits the launcher's requests; it sends the next ones in {math.ceil(seconds)}s",
        "wait; the launcher continues by itself",
        (Evidence("launcher", "Retry-After", f"{math.ceil(seconds)}s"),),
    )


def _backlog(context: Context) -> Problem | None:
    queued, seconds = context.source.launcher.queued, context.source.launcher.queued_seconds
    if seconds < _BACKLOG_SECONDS:
        return None
    return Problem(
        causes.BACKLOG,
        f"{counted(queued, 'Framework')} in the launcher's queue, the first for {int(seconds)}s",
        "wait; docs/sizing.md has the limits of one launcher",
        (Evidence("launcher", 'workqueue_depth{name="framework"}', str(queued)),),
    )


def _leader(context: Context) -> tuple[Evidence, ...]:
    """The Lease as evidence; none in local mode."""
    leadership = context.source.launcher.leadership
    if leadership is None:
        return ()
    renewed = f"{leadership.holder or 'none'}, renewed {leadership.unrenewed_seconds}s ago"
    return (Evidence("lease/framework-launcher", "spec.holderIdentity", renewed),)


def _replicas(context: Context) -> str:
    """The command that lists the launcher's replicas and their Lease."""
    leadership = context.source.launcher.leadership
    return f"kubectl -n {leadership.namespace if leadership else 'framework-launcher'} get pods,lease"


def _internal_error(context: Context) -> Problem | None:
    event = last_event(context.framework_events, "InternalError", "InvalidObject")
    step = "the log of the launcher has the traceback; correct or delete the Framework"
    if event is not None and context.now - (parsed_time(event.get("lastTimestamp")) or 0) <= _EVENT_SECONDS:
        message = text(event.get("message"))
        return Problem(
            causes.INTERNAL_ERROR,
            f"the launcher fails on this Framework: {message}",
            step,
            (Evidence(context.reference, f"events[{event.get('reason')}]", shortened(message)),),
        )
    errors = context.source.launcher.object_errors
    if not errors:
        return None
    evidence = tuple(Evidence("launcher", "/readyz?verbose", each) for each in errors[:_MAX_ERRORS])
    return Problem(
        causes.INTERNAL_ERROR, f"the launcher fails on this Framework: {errors[0]}", step, evidence
    )


def _unprocessed(context: Context) -> Problem | None:
    framework, status = context.framework, context.framework.status
    if framework.deleting:
        return None
    if status is None:
        age = context.now - (_creation_time(context) or context.now)
        if age < _PROCESSING_SECONDS:
            return None
        return Problem(
            causes.NOT_RECONCILED,
            f"no launcher has processed the Framework within {age}s",
            f"check that a launcher runs and leads: {_replicas(context)}",
            (Evidence(context.reference, "status", "empty"), *_leader(context)),
        )
    if status.observed_generation >= framework.generation or framework.spec_errors:
        return None
    if context.now - (_last_change(context) or 0) < _PROCESSING_SECONDS:
        return None
    generations = f"{status.observed_generation}, metadata.generation {framework.generation}"
    return Problem(
        causes.OUTDATED_STATUS,
        f"the launcher has not processed the last change (generation {framework.generation})",
        f"wait some seconds; else check that a launcher leads: {_replicas(context)}",
        (Evidence(context.reference, "status.observedGeneration", generations), *_leader(context)),
    )


def _creation_time(context: Context) -> Time | None:
    return parsed_time(as_object(context.source.object.get("metadata")).get("creationTimestamp"))


def _last_change(context: Context) -> Time | None:
    """The time of the last change of the spec, if the API server has recorded it."""
    entries = as_list(as_object(context.source.object.get("metadata")).get("managedFields"))
    times = [parsed_time(each.get("time")) for each in map(as_object, entries) if not each.get("subresource")]
    return max((time for time in times if time is not None), default=None)
