"""Frameworks that are held, stopped, scaled down or deleted, and pods that do not go away."""

from collections.abc import Iterator
from typing import Final

from launcher.core import causes
from launcher.core.completion_codes import Code
from launcher.core.diagnosis.finding import Evidence, Problem, counted
from launcher.core.diagnosis.inputs import Context, Json, TaskView, parsed_time
from launcher.core.json_access import as_list, as_object, text
from launcher.core.spec import ExecutionType
from launcher.core.status import State
from launcher.core.timestamps import Time

#: Finalizers of Kubernetes itself: foreground deletion and orphaning of dependents.
_FOREGROUND: Final = "foregroundDeletion"
_OWN_FINALIZERS: Final = frozenset({_FOREGROUND, "orphan"})


def explain_framework(context: Context) -> Iterator[Problem]:
    """Problems of the Framework as a whole that follow from its spec and metadata."""
    framework, status = context.framework, context.framework.status
    if framework.deleting:
        yield _deletion(context)
        return
    completion = status.attempt.completion if status is not None else None
    is_over = status is not None and status.state is State.COMPLETED
    if completion is not None and completion.code == Code.STOP_FRAMEWORK_REQUESTED:
        yield _stopped(context)
    elif completion is not None and completion.code in (Code.ACTIVE_DEADLINE_EXCEEDED, Code.GANG_TIMEOUT):
        is_gang = completion.code == Code.GANG_TIMEOUT
        yield Problem(
            causes.GANG_TIMEOUT if is_gang else causes.ACTIVE_DEADLINE,
            completion.diagnostics.removesuffix("."),
            "raise spec.gang.timeoutSeconds, lower spec.gang.minTasks, or add nodes"
            if is_gang
            else "raise spec.activeDeadlineSeconds and submit the Framework again",
            (
                Evidence(
                    context.reference, "status.attemptStatus.completionStatus.code", str(completion.code)
                ),
            ),
        )
    elif framework.spec.execution is ExecutionType.STOP:
        yield _stopped(context)
    elif framework.spec.execution is ExecutionType.CREATE and not is_over and not framework.spec_errors:
        yield Problem(
            causes.SUSPENDED,
            f"suspended: executionType is Create{_changed_by(context, 'executionType')}",
            context.command("start"),
            (Evidence(context.reference, "spec.executionType", "Create"),),
        )
    elif not framework.spec_errors and not is_over and not any(role.tasks for role in framework.spec.roles):
        yield Problem(
            causes.SCALED_TO_ZERO,
            "every role has 0 tasks, so no pods are created",
            context.command("scale", f"{framework.spec.roles[0].name if framework.spec.roles else 'ROLE'}=1"),
            (Evidence(context.reference, "spec.taskRoles[].taskNumber", "0"),),
        )


def _stopped(context: Context) -> Problem:
    return Problem(
        causes.STOPPED,
        f"stopped: executionType is Stop{_changed_by(context, 'executionType')}",
        "submit the Framework again; a stopped one does not continue",
        (Evidence(context.reference, "spec.executionType", "Stop"),),
    )


def _changed_by(context: Context, field: str) -> str:
    """The client that set a field of the spec, if the API server has recorded it."""
    entries = as_list(as_object(context.source.object.get("metadata")).get("managedFields"))
    for entry in entries:
        if f"f:{field}" in as_object(as_object(entry.get("fieldsV1")).get("f:spec")):
            when = text(entry.get("time"))
            return f", set by {entry.get('manager') or 'an unknown client'}{' at ' + when if when else ''}"
    return ""


def _deletion(context: Context) -> Problem:
    finalizers = as_list(as_object(context.source.object.get("metadata")).get("finalizers"))
    foreign = [str(each) for each in finalizers if each not in _OWN_FINALIZERS]
    evidence = (
        Evidence(context.reference, "metadata.finalizers", ", ".join(map(str, finalizers)) or "none"),
    )
    # With foreground deletion the pods go first; otherwise they are deleted after the Framework.
    if foreign and (_FOREGROUND not in finalizers or not context.pods):
        return Problem(
            causes.FRAMEWORK_FINALIZER,
            f"deleted, and held by the finalizer {', '.join(foreign)}",
            f"the controller of the finalizer has to remove it: "
            f"{context.kubectl('edit framework', context.framework.name)}",
            evidence,
        )
    return Problem(
        causes.FRAMEWORK_DELETING,
        f"being deleted; remaining: {counted(len(context.pods), 'pod')}",
        context.command("wait", "--for deleted"),
        evidence,
    )


def explain_terminating(view: TaskView) -> Problem:
    """A pod that still exists after its grace period."""
    metadata = as_object((view.pod or {}).get("metadata"))
    finalizers = [str(each) for each in as_list(metadata.get("finalizers"))]
    late = view.context.now - (parsed_time(metadata.get("deletionTimestamp")) or view.context.now)
    if finalizers:
        return Problem(
            causes.POD_FINALIZER,
            f"the deleted pod is held by the finalizer {', '.join(finalizers)}",
            f"the controller of the finalizer has to remove it: {view.context.kubectl('edit pod', view.pod_name)}",
            (view.evidence("metadata.finalizers", ", ".join(finalizers)),),
        )
    node = as_object((view.pod or {}).get("spec")).get("nodeName") or "none"
    return Problem(
        causes.POD_TERMINATING,
        f"the pod still exists {late}s after its grace period (node {node})",
        f"check the node; if it is gone for good: {view.context.kubectl('delete pod', view.pod_name, '--force')}",
        (view.evidence("metadata.deletionTimestamp", metadata.get("deletionTimestamp")),),
    )


def is_overdue(pod: Json, now: int, tolerance: int) -> bool:
    """Whether the pod still exists *tolerance* seconds after the end of its grace period."""
    until = parsed_time(as_object(pod.get("metadata")).get("deletionTimestamp"))
    return until is not None and now - until > tolerance


def deletion_request_time(pod: Json) -> Time:
    """When the deletion of the pod was requested: its grace period before ``deletionTimestamp``."""
    metadata = as_object(pod.get("metadata"))
    grace = metadata.get("deletionGracePeriodSeconds")
    return (parsed_time(metadata.get("deletionTimestamp")) or 0) - (grace if isinstance(grace, int) else 0)
