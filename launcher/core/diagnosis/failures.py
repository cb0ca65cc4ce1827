"""Why the attempt of a task failed."""

from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause
from launcher.core.completion_codes import Code, Completion, ContainerTermination
from launcher.core.diagnosis import admission, start_order
from launcher.core.diagnosis.exits import (
    UNKNOWN_EXIT_STEP,
    explain_exit,
    output_text,
    termination_evidence,
    with_output,
)
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import TaskView
from launcher.core.diagnosis.start_failures import explain_start_failure
from launcher.core.names import DISCOVERY
from launcher.core.planning import messages


def explain_failed(view: TaskView) -> Problem:
    """A task whose attempt failed because its pod did, or because of the launcher's own rules."""
    completion = view.task.attempt.completion
    assert completion is not None, "only failed tasks are explained here"
    return explain_completion(view, completion)


def explain_completion(view: TaskView, completion: Completion) -> Problem:
    """The cause of a failed attempt of a task."""
    termination = messages.failed_container(completion)
    evidence = _completion_evidence(view, completion, termination)
    if completion.code in _CREATION_CODES:
        return admission.explain_creation(view, completion.diagnostics)
    if completion.code == Code.POD_START_PERMANENT_ERROR:
        problem = explain_start_failure(view, completion.diagnostics, evidence)
        if problem is not None:
            return problem
    if (cause := _PHRASES.get(completion.phrase)) is not None:
        return _explain_phrase(view, cause, completion, evidence)
    if termination is not None:
        termination = with_output(view, termination)
        if (problem := explain_exit(view, termination, evidence)) is not None:
            return problem
        if termination.name == DISCOVERY:
            return start_order.explain_peers_timeout(view, termination, evidence)
    if termination is not None and view.pod_spec and view.is_init_container(termination.name):
        cause = causes.INIT_FAILING
    else:
        cause = causes.EXIT_CODE
    described = messages.describe_completion(completion, view.role)
    return Problem(cause, f"{described}{output_text(termination)}", view.logs_command, evidence)


_CREATION_CODES: Final = frozenset(
    {
        Code.POD_CREATION_TRANSIENT_ERROR,
        Code.POD_CREATION_PERMANENT_ERROR,
        Code.POD_CREATION_UNKNOWN_ERROR,
    }
)

#: Completions of the launcher and of nodes, by phrase.
_PHRASES: Final = {
    "PodEvicted": causes.EVICTED,
    "PodNodeLost": causes.NODE_LOST,
    "PodScheduledToInsufficientResourceNode": causes.NODE_REJECTED,
    "PodNodeAdmissionForbidden": causes.NODE_REJECTED,
    "PodNodeAdmissionUnexpectedError": causes.NODE_REJECTED,
    "PodPreemptedForCriticalPod": causes.DISRUPTED,
    "PodNodeShutdown": causes.DISRUPTED,
    "PodDisrupted": causes.DISRUPTED,
    "PodDeadlineExceeded": causes.POD_DEADLINE,
    "ContainerStatusUnknown": causes.UNKNOWN_EXIT,
    "PodExternalDeleted": causes.POD_DELETED,
    "PodLocalCacheCreationTimeout": causes.POD_UNOBSERVED,
    "PodPendingDeadlineExceeded": causes.PENDING_DEADLINE,
    "GangTimeout": causes.GANG_TIMEOUT,
    "StartConditionUnreachable": causes.START_UNREACHABLE,
    "ActiveDeadlineExceeded": causes.ACTIVE_DEADLINE,
    "Stalled": causes.STALLED,
}

_STEPS: Final = {
    causes.EVICTED.id: "request the resource that ran out in {field}.containers[].resources, or clean up the node",
    causes.NODE_LOST.id: "kubectl get nodes; with fancyRetryPolicy: true such a failure is retried without limit",
    causes.NODE_REJECTED.id: "with fancyRetryPolicy: true in the retryPolicy such a failure is retried without limit",
    causes.DISRUPTED.id: "with fancyRetryPolicy: true in the retryPolicy such a failure is retried without limit",
    causes.POD_DEADLINE.id: "raise {field}.activeDeadlineSeconds",
    causes.UNKNOWN_EXIT.id: UNKNOWN_EXIT_STEP,
    causes.POD_DELETED.id: "a user, a drain or a garbage collector deleted the pod; with fancyRetryPolicy: true such a "
    "failure is retried without limit",
    causes.POD_UNOBSERVED.id: "submit the Framework again; if it happens again, see the log of the launcher",
    causes.PENDING_DEADLINE.id: "raise pendingDeadlineSeconds of the role, or correct the cause in the message",
    causes.GANG_TIMEOUT.id: "raise spec.gang.timeoutSeconds, lower spec.gang.minTasks, or add nodes",
    causes.START_UNREACHABLE.id: "correct startAfter of the role, or the role that it waits for",
    causes.ACTIVE_DEADLINE.id: "raise spec.activeDeadlineSeconds",
    causes.STALLED.id: "{logs} --tail 20 shows its last lines; if it is only slow, raise progressDeadlineSeconds of "
    "the role or send heartbeats",
}


def _explain_phrase(
    view: TaskView, cause: Cause, completion: Completion, evidence: tuple[Evidence, ...]
) -> Problem:
    described = messages.describe_completion(completion, view.role)
    reason, detail = (
        (completion.pod.reason, completion.pod.message) if completion.pod is not None else ("", "")
    )
    if reason or detail:
        # The containers of such a pod were killed with it, so their exit codes show nothing.
        evidence = (view.evidence("status.reason", reason), view.evidence("status.message", detail))
    step = _STEPS[cause.id].format(field=view.field, logs=view.logs_command)
    return Problem(cause, f"{described}{': ' + detail if detail else ''}", step, evidence)


def _completion_evidence(
    view: TaskView, completion: Completion, termination: ContainerTermination | None
) -> tuple[Evidence, ...]:
    if termination is not None:
        return termination_evidence(
            view, termination, f"status.containerStatuses[{termination.name}].state.terminated"
        )
    field = f"status.taskRoleStatuses[{view.role_name}].taskStatuses[{view.task.index}]"
    value = completion.diagnostics or completion.summary
    return (Evidence(view.context.reference, f"{field}.attemptStatus.completionStatus", value[:500]),)
