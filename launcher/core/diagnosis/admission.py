"""Pods that were not created: the error of the API server, and Frameworks that were stored with an invalid spec."""

from collections.abc import Mapping, Sequence

from launcher.core import causes
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import Context, Json, TaskView, last_event, shortened
from launcher.core.json_access import as_object, text
from launcher.core.pods.creation_reason import creation_reason

#: The next step by cause.
_STEPS: Mapping[str, str] = {
    causes.QUOTA.id: "wait until other pods finish, or raise the quota: {kubectl} describe quota",
    causes.LIMIT_RANGE.id: "change the resources in {field}.containers[]: {kubectl} describe limitrange",
    causes.POD_SECURITY.id: "change securityContext in {field} as the message says, or the label "
    "pod-security.kubernetes.io/enforce of the namespace",
    causes.WEBHOOK_UNREACHABLE.id: "check the service of the webhook: kubectl get "
    "validatingwebhookconfigurations,mutatingwebhookconfigurations",
    causes.WEBHOOK_DENIED.id: "change the pod in {field} as the message says",
    causes.SERVICE_ACCOUNT.id: "create it, or correct {field}.serviceAccountName",
    causes.PRIORITY_CLASS.id: "kubectl get priorityclasses; correct {field}.priorityClassName",
    causes.NAMESPACE_TERMINATING.id: "submit the Framework in another namespace",
    causes.NAME_TAKEN.id: "{kubectl} get pod {pod} -o yaml shows the owner; delete the pod or rename the Framework",
    causes.THROTTLED.id: "wait; the launcher continues by itself",
    causes.INVALID_POD.id: "correct the field in {field}, then: launcher validate FILE",
    causes.POD_FORBIDDEN.id: "{kubectl} describe framework {name}",
    causes.API_UNAVAILABLE.id: "wait; the launcher continues by itself. Its log has the details",
}


def explain_creation(view: TaskView, message: str) -> Problem:
    """A pod whose creation failed with *message*."""
    field = f"status.taskRoleStatuses[{view.role_name}].taskStatuses[{view.task.index}].message"
    return _explain(view, message, Evidence(view.context.reference, field, shortened(message)))


def explain_blocked_creation(view: TaskView) -> Problem | None:
    """A pod that is not created because the creation of another pod of its role failed; None if none has."""
    event = last_event(view.context.framework_events, "FailedCreate")
    if event is None:
        return None
    message = text(event.get("message"))
    return _explain(
        view, message, Evidence(view.context.reference, "events[FailedCreate]", shortened(message))
    )


def _explain(view: TaskView, message: str, evidence: Evidence) -> Problem:
    reason = creation_reason(message)
    words = {
        "field": view.field,
        "kubectl": view.context.kubectl(),
        "name": view.context.framework.name,
        "pod": view.pod_name,
    }
    quotas = _used_up(view.context.source.quotas) if reason.cause is causes.QUOTA else ()
    return Problem(reason.cause, reason.text, _STEPS[reason.cause.id].format(**words), (evidence, *quotas))


def explain_invalid_spec(context: Context) -> Problem | None:
    """A Framework whose stored spec is invalid, because it was stored while nothing validated it."""
    spec_errors = context.framework.spec_errors
    if not spec_errors:
        return None
    status = context.framework.status
    condition = status.condition("Valid") if status is not None else None
    message = condition.message if condition is not None else spec_errors
    return Problem(
        causes.INVALID_SPEC,
        f"the spec is invalid, so no pods are created: {message}",
        f"correct the field: {context.kubectl('edit framework', context.framework.name)}",
        (Evidence(context.reference, "status.conditions[Valid].message", shortened(message)),),
    )


def _used_up(quotas: Sequence[Json]) -> tuple[Evidence, ...]:
    """The resources of quotas that are used up."""
    return tuple(
        Evidence(f"resourcequota/{quota['metadata']['name']}", f"status.used.{name}", f"{used} of {hard}")
        for quota in quotas
        for name, hard in as_object(as_object(quota.get("status")).get("hard")).items()
        if (used := as_object(as_object(quota.get("status")).get("used")).get(name)) == hard
    )
