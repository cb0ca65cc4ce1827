"""Why a pod was not created: the error of the API server, and Frameworks that were stored with an invalid spec."""

import re
from collections.abc import Sequence
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import Context, Json, TaskView, last_event, shortened
from launcher.core.json_access import as_object, text

#: The names of pods in messages, which differ between tasks with the same cause.
_POD_NAME: Final = re.compile(r'pods? "[^"]*"')
_PREFIXES: Final = ("Error creating pod, retrying: ", "Pod creation rejected: ")

#: What kube-apiserver and its admission plugins report; the first that matches.
_PATTERNS: Sequence[tuple[re.Pattern[str], Cause, str, str]] = (
    (
        re.compile(r"exceeded quota: (?P<detail>.*)|failed quota: (?P<other>.*)"),
        causes.QUOTA,
        "resource quota exceeded: {detail}",
        "wait until other pods finish, or raise the quota: {kubectl} describe quota",
    ),
    (
        re.compile(
            r"(?P<detail>(maximum|minimum) \S+ (usage per|storage usage).*|\S+ max limit to request ratio.*)"
        ),
        causes.LIMIT_RANGE,
        "a LimitRange of the namespace rejects the pod: {detail}",
        "change the resources in {field}.containers[]: {kubectl} describe limitrange",
    ),
    (
        re.compile(r"violates PodSecurity (?P<detail>.*)"),
        causes.POD_SECURITY,
        "PodSecurity rejects the pod: {detail}",
        "change securityContext in {field} as the message says, or the label pod-security.kubernetes.io/enforce of "
        "the namespace",
    ),
    (
        re.compile(r"failed calling webhook (?P<detail>.*)"),
        causes.WEBHOOK_UNREACHABLE,
        "an admission webhook cannot be called: {detail}",
        "check the service of the webhook: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
    ),
    (
        re.compile(r"(?P<detail>(admission webhook \S+|ValidatingAdmissionPolicy .*) denied.*)"),
        causes.WEBHOOK_DENIED,
        "{detail}",
        "change the pod in {field} as the message says",
    ),
    (
        re.compile(r"error looking up service account (?P<detail>[^\s:]+)"),
        causes.SERVICE_ACCOUNT,
        "service account {detail} does not exist",
        "create it, or correct {field}.serviceAccountName",
    ),
    (
        re.compile(r"no PriorityClass with name (?P<detail>\S+)"),
        causes.PRIORITY_CLASS,
        "priority class {detail} does not exist",
        "kubectl get priorityclasses; correct {field}.priorityClassName",
    ),
    (
        re.compile(r"(?P<detail>is being terminated)"),
        causes.NAMESPACE_TERMINATING,
        "the namespace is being deleted, so no pod can be created in it",
        "submit the Framework in another namespace",
    ),
    (
        re.compile(r"(?P<detail>already exists and belongs to another owner)"),
        causes.NAME_TAKEN,
        "a pod of another owner has the name of the task's pod",
        "{kubectl} get pod {pod} -o yaml shows the owner; delete the pod or rename the Framework",
    ),
    (
        re.compile(r"(?i)too many requests|429|(?P<detail>please try again later)"),
        causes.THROTTLED,
        "the API server limits the launcher's requests",
        "wait; the launcher continues by itself",
    ),
    (
        re.compile(r"(?i)(?P<detail>is invalid.*|.*(invalid|required|unsupported|duplicate) value.*)"),
        causes.INVALID_POD,
        "the API server rejects the pod: {detail}",
        "correct the field in {field}, then: launcher validate FILE",
    ),
    (
        re.compile(r"(?i)(?P<detail>forbidden.*)"),
        causes.POD_FORBIDDEN,
        "the API server rejects the pod: {detail}",
        "{kubectl} describe framework {name}",
    ),
    (
        re.compile(
            r"(?i)(?P<detail>cannot (connect|reach|be reached)|connection|was lost|no response|unavailable|timed? ?out)"
        ),
        causes.API_UNAVAILABLE,
        "the launcher cannot reach the API server",
        "wait; the launcher continues by itself. Its log has the details",
    ),
)


def is_creation_error(message: str) -> bool:
    """Whether the message of a task reports a failed creation of its pod."""
    return message.startswith(_PREFIXES) or "belongs to another owner" in message


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
    plain = _POD_NAME.sub("pods", message)
    for prefix in _PREFIXES:
        plain = plain.removeprefix(prefix)
    for pattern, cause, what, step in _PATTERNS:
        if (found := pattern.search(plain)) is not None:
            detail = next((value for value in found.groupdict().values() if value), "")
            words = {
                "detail": detail,
                "field": view.field,
                "kubectl": view.context.kubectl(),
                "name": view.context.framework.name,
                "pod": view.pod_name,
            }
            quotas = _used_up(view.context.source.quotas) if cause is causes.QUOTA else ()
            return Problem(cause, what.format(**words), step.format(**words), (evidence, *quotas))
    return Problem(
        causes.POD_FORBIDDEN,
        f"the pod cannot be created: {plain.rpartition('Error creating pod for task ')[2]}",
        view.context.kubectl("describe framework", view.context.framework.name),
        (evidence,),
    )


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
