"""The launcher itself: Frameworks that it has not processed, and what prevents it."""

from collections.abc import Iterator
from typing import Final

from launcher.core import causes
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import (
    Context,
    DiagnosisInput,
    TaskView,
    last_event,
    parsed_time,
    shortened,
)
from launcher.core.json_access import as_object, text

#: A launcher processes a new Framework, and a change, within this time.
_PROCESSING_SECONDS: Final = 15
#: Age of events that still matter.
_EVENT_SECONDS: Final = 600


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
    if context.source.launcher.disk_full:
        yield Problem(
            causes.LAUNCHER_DISK_FULL,
            f"the launcher rejects writes: {context.source.launcher.disk_full}",
            "free disk space in the launcher's data directory; objects can still be deleted",
            (Evidence("launcher", "/readyz", shortened(context.source.launcher.disk_full)),),
        )
    if (problem := _internal_error(context)) is not None or (problem := _unprocessed(context)) is not None:
        yield problem


def _internal_error(context: Context) -> Problem | None:
    event = last_event(context.framework_events, "InternalError", "InvalidObject")
    if event is None or context.now - (parsed_time(event.get("lastTimestamp")) or 0) > _EVENT_SECONDS:
        return None
    message = text(event.get("message"))
    return Problem(
        causes.INTERNAL_ERROR,
        f"the launcher fails on this Framework: {message}",
        "the log of the launcher has the traceback; correct or delete the Framework",
        (Evidence(context.reference, f"events[{event.get('reason')}]", shortened(message)),),
    )


def _unprocessed(context: Context) -> Problem | None:
    framework, status = context.framework, context.framework.status
    metadata = as_object(context.source.object.get("metadata"))
    if framework.deleting:
        return None
    if status is None:
        age = context.now - (parsed_time(metadata.get("creationTimestamp")) or context.now)
        if age < _PROCESSING_SECONDS:
            return None
        return Problem(
            causes.NOT_RECONCILED,
            f"no launcher has processed the Framework within {age}s",
            "check that a launcher runs and leads: kubectl -n framework-launcher get pods,lease",
            (Evidence(context.reference, "status", "empty"),),
        )
    if status.observed_generation >= framework.generation or framework.spec_errors:
        return None
    return Problem(
        causes.OUTDATED_STATUS,
        f"the launcher has not processed the last change (generation {framework.generation})",
        "wait some seconds; else check that a launcher leads: kubectl -n framework-launcher get pods,lease",
        (
            Evidence(
                context.reference,
                "status.observedGeneration",
                f"{status.observed_generation}, metadata.generation {framework.generation}",
            ),
        ),
    )
