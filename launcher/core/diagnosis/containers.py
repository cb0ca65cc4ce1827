"""Why a container does not run, crashed or failed, with the last lines of its output."""

import re
from signal import Signals
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause
from launcher.core.completion_codes import Code, Completion, ContainerTermination
from launcher.core.diagnosis import admission, images, start_order, volumes
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import Json, TaskView, last_event, parsed_time
from launcher.core.json_access import as_list, as_object, text
from launcher.core.names import DISCOVERY
from launcher.core.planning import messages

_NOT_FOUND: Final = re.compile(r"(?i)not found|no such file|cannot find")
_DENIED: Final = re.compile(r"(?i)permission denied")
_NO_SPACE: Final = re.compile(r"(?i)no space left on device|disk quota exceeded")
#: The kubelet appends the pod, which differs between tasks.
_POD_SUFFIX: Final = re.compile(r" \(pod: .*\)$")
#: The runtime's id of a container, which differs between its attempts.
_CONTAINER_ID: Final = re.compile(r'"?\b[0-9a-f]{64}\b"? ?')
_SIGNAL_BASE: Final = 128
_COMMAND_NOT_FOUND, _COMMAND_DENIED = 127, 126
#: The last lines of a container's output that are shown.
_MAX_LINES: Final = 5
_START_REASONS: Final = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})


def explain_waiting(view: TaskView) -> Problem:
    """A pod with a container that waits for something else than its start."""
    container = waiting_container(view.status) or {}
    waiting = as_object(as_object(container.get("state")).get("waiting"))
    name, reason, message = (
        text(container.get("name")),
        text(waiting.get("reason")),
        text(waiting.get("message")),
    )
    last = _last_termination(container)
    if reason in images.WAITING_REASONS:
        return images.explain_image(view, container, reason, message)
    if reason in ("ContainerCreating", "PodInitializing", ""):
        return volumes.explain_volume(view, message, "status.containerStatuses[].state.waiting.message")
    if last and last.code:
        return _explain_restarting(view, container, last)
    details = f"{reason}: {message}".removesuffix(": ")
    evidence = (view.evidence(f"status.containerStatuses[{name}].state.waiting", details),)
    if volumes.is_reference_error(message):
        return volumes.explain_volume(
            view, message, f"status.containerStatuses[{name}].state.waiting.message"
        )
    if _NO_SPACE.search(message):
        return _disk_full(view, evidence)
    if reason == "CreateContainerConfigError":
        return Problem(
            causes.CONTAINER_CONFIG,
            f"container {name} cannot be configured: {_POD_SUFFIX.sub('', message) or reason}",
            f"correct {view.field}.containers[{name}]",
            evidence,
        )
    if reason in _START_REASONS and (problem := _explain_command(view, name, message, evidence)) is not None:
        return problem
    return Problem(
        causes.CONTAINER_CREATE,
        f"container {name} cannot be created: {_CONTAINER_ID.sub('', message) or reason}",
        view.context.kubectl("describe pod", view.pod_name),
        evidence,
    )


def waiting_container(status: Json) -> Json | None:
    """The first container that waits, init containers first; None if there is none."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in as_list(status.get(field)):
            if "waiting" in as_object(container.get("state")):
                found: Json = container
                return found
    return None


def explain_restarted(view: TaskView) -> Problem:
    """A pod with a running container that failed before."""
    containers = [
        *as_list(view.status.get("initContainerStatuses")),
        *as_list(view.status.get("containerStatuses")),
    ]
    container = next(each for each in containers if each.get("restartCount"))
    return _explain_restarting(view, container, _last_termination(container))


def explain_creating(view: TaskView) -> Problem | None:
    """A pod whose containers are being created for a long time; None if no event says why."""
    container = waiting_container(view.status) or {}
    event = last_event(view.events, *volumes.EVENT_REASONS, "FailedCreatePodSandBox", "Pulling", "Pulled")
    if event is None:
        return None
    reason, message = text(event.get("reason")), text(event.get("message"))
    field = f"events[{reason}]"
    if reason == "Pulling":
        return images.explain_pulling(view, container, event)
    if reason == "FailedCreatePodSandBox":
        return Problem(
            causes.SANDBOX,
            f"the network of the pod cannot be set up: {message.partition(': ')[2] or message}",
            f"check the network plugin of node {view.pod_spec.get('nodeName')}",
            (view.evidence(field, message),),
        )
    return volumes.explain_volume(view, message, field) if reason in volumes.EVENT_REASONS else None


def is_sidecar(pod: Json, name: object) -> bool:
    """Whether the init container of that name is restarted always, and so never finishes."""
    spec = as_object(pod.get("spec"))
    return any(
        as_object(each).get("name") == name and as_object(each).get("restartPolicy") == "Always"
        for each in as_list(spec.get("initContainers"))
    )


def explain_init(view: TaskView) -> Problem:
    """A pod with an init container that runs."""
    container = next(
        each
        for each in as_list(view.status.get("initContainerStatuses"))
        if "running" in as_object(each.get("state"))
    )
    name = text(container.get("name"))
    if name == DISCOVERY or "get_ips" in " ".join(map(str, as_list(view.container(name).get("command")))):
        return start_order.explain_peers(view, name)
    started = parsed_time(as_object(as_object(container.get("state")).get("running")).get("startedAt"))
    return Problem(
        causes.INIT_RUNNING,
        f"init container {name} has not finished",
        f"{view.logs_command} -c {name}",
        (
            view.evidence(
                f"status.initContainerStatuses[{name}].state.running",
                f"for {view.context.now - started}s" if started is not None else "running",
            ),
        ),
    )


def explain_unready(view: TaskView) -> Problem:
    """A running pod that does not pass its readiness or startup probe."""
    container = next(each for each in as_list(view.status.get("containerStatuses")) if not each.get("ready"))
    name = text(container.get("name"))
    event = last_event(view.events, "Unhealthy")
    message = text(event.get("message")).rstrip(": ") if event is not None else ""
    probe = "its readiness probe" if "readinessProbe" in view.container(name) else "its startup probe"
    return Problem(
        causes.NOT_READY,
        f"container {name} runs but does not pass {probe}{': ' + message if message else ''}",
        view.logs_command,
        (view.evidence(f"status.containerStatuses[{name}].ready", "false"),),
    )


def _explain_restarting(view: TaskView, container: Json, last: ContainerTermination) -> Problem:
    name, restarts = text(container.get("name")), container.get("restartCount") or 0
    is_init = any(
        as_object(each).get("name") == name for each in as_list(view.pod_spec.get("initContainers"))
    )
    evidence = _termination_evidence(view, last, f"status.containerStatuses[{name}].lastState.terminated")
    if (problem := _explain_cause(view, last, evidence)) is not None:
        return problem
    cause = causes.INIT_FAILING if is_init else causes.CRASH_LOOP
    kind = "init container" if is_init else "container"
    times = f" {restarts} times" if restarts > 1 else ""
    return Problem(
        cause,
        f"{kind} {name} failed{times} and is restarted: {_exit_text(last)}{_output_text(last)}",
        f"{view.logs_command} -p" if not is_init else f"{view.logs_command} -c {name}",
        evidence,
    )


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
    if (cause := _PHRASES.get(completion.phrase)) is not None:
        return _explain_phrase(view, cause, completion, evidence)
    if termination is not None:
        if (problem := _explain_cause(view, termination, evidence)) is not None:
            return problem
        if termination.name == DISCOVERY:
            return start_order.explain_peers_timeout(view, termination, evidence)
    if termination is not None and view.pod_spec and _is_init(view, termination.name):
        cause = causes.INIT_FAILING
    else:
        cause = causes.EXIT_CODE
    described = messages.describe_completion(completion, view.role)
    return Problem(cause, f"{described}{_output_text(termination)}", view.logs_command, evidence)


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
}

_STEPS: Final = {
    causes.EVICTED.id: "request the resource that ran out in {field}.containers[].resources, or clean up the node",
    causes.NODE_LOST.id: "kubectl get nodes; with fancyRetryPolicy: true such a failure is retried without limit",
    causes.NODE_REJECTED.id: "with fancyRetryPolicy: true in the retryPolicy such a failure is retried without limit",
    causes.DISRUPTED.id: "with fancyRetryPolicy: true in the retryPolicy such a failure is retried without limit",
    causes.POD_DEADLINE.id: "raise {field}.activeDeadlineSeconds",
    causes.UNKNOWN_EXIT.id: "the node restarted or lost its state; submit the Framework again",
    causes.POD_DELETED.id: "a user, a drain or a garbage collector deleted the pod; with fancyRetryPolicy: true such a "
    "failure is retried without limit",
    causes.POD_UNOBSERVED.id: "submit the Framework again; if it happens again, see the log of the launcher",
    causes.PENDING_DEADLINE.id: "raise pendingDeadlineSeconds of the role, or correct the cause in the message",
    causes.GANG_TIMEOUT.id: "raise spec.gang.timeoutSeconds, lower spec.gang.minTasks, or add nodes",
    causes.START_UNREACHABLE.id: "correct startAfter of the role, or the role that it waits for",
    causes.ACTIVE_DEADLINE.id: "raise spec.activeDeadlineSeconds",
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
    step = _STEPS[cause.id].format(field=view.field)
    return Problem(cause, f"{described}{': ' + detail if detail else ''}", step, evidence)


def _explain_cause(
    view: TaskView, termination: ContainerTermination, evidence: tuple[Evidence, ...]
) -> Problem | None:
    """The cause of an exit that the exit itself names; None if only the program knows it."""
    name, message, code = termination.name, termination.message, termination.code
    if termination.reason == "OOMKilled":
        limit = as_object(as_object(view.container(name).get("resources")).get("limits")).get("memory")
        known = f" (limit {limit})" if limit else ""
        return Problem(
            causes.OUT_OF_MEMORY,
            f"container {name} ran out of memory{known}",
            f"raise {view.field}.containers[{name}].resources.limits.memory",
            evidence,
        )
    if _NO_SPACE.search(message):
        return _disk_full(view, evidence)
    if termination.reason in _START_REASONS or code in (_COMMAND_NOT_FOUND, _COMMAND_DENIED):
        described = message if termination.reason in _START_REASONS else f"exit code {code} {_MEANINGS[code]}"
        if (problem := _explain_command(view, name, described, evidence)) is not None:
            return problem
    if termination.reason == "ContainerStatusUnknown":
        return Problem(
            causes.UNKNOWN_EXIT,
            f"the node does not know how container {name} ended",
            _STEPS[causes.UNKNOWN_EXIT.id],
            evidence,
        )
    if signal_name(code):
        return Problem(
            causes.SIGNAL,
            f"container {name} was killed by {signal_name(code)} (exit code {code}){_output_text(termination)}",
            view.logs_command,
            evidence,
        )
    return None


_MEANINGS: Final = {_COMMAND_NOT_FOUND: "(command not found)", _COMMAND_DENIED: "(permission denied)"}


def _explain_command(
    view: TaskView, name: str, message: str, evidence: tuple[Evidence, ...]
) -> Problem | None:
    command = " ".join(map(str, as_list(view.container(name).get("command"))[:1])) or "its command"
    if _DENIED.search(message):
        return Problem(
            causes.COMMAND_DENIED,
            f"container {name} may not execute {command}",
            f"make the file executable, or correct {view.field}.containers[{name}].command",
            evidence,
        )
    if _NOT_FOUND.search(message):
        return Problem(
            causes.COMMAND_NOT_FOUND,
            f"container {name}: a command was not found ({command})",
            f"correct {view.field}.containers[{name}].command, or install the program in the image; in local mode "
            "images are not pulled: install it on this machine, or launcher serve --image NAME=DIR",
            evidence,
        )
    return None


def _disk_full(view: TaskView, evidence: tuple[Evidence, ...]) -> Problem:
    node = view.pod_spec.get("nodeName") or view.task.attempt.node or ""
    return Problem(
        causes.DISK_FULL,
        f"no space left on a disk of node {node}" if node else "no space left on a disk of the node",
        "free disk space on the node, or mount a larger volume at the path that is written to",
        evidence,
    )


def signal_name(code: int) -> str:
    """``SIGKILL`` for 137; empty if the exit code does not name a signal."""
    try:
        return Signals(code - _SIGNAL_BASE).name if code > _SIGNAL_BASE else ""
    except ValueError:
        return ""


def _exit_text(last: ContainerTermination) -> str:
    return f"exit code {last.code}" + (f" ({last.reason})" if last.reason not in ("", "Error") else "")


def _output_text(termination: ContainerTermination | None) -> str:
    """The last line of the output, which most often names the error."""
    lines = termination.message.strip().splitlines() if termination is not None else []
    return f"; last line: {lines[-1].strip()[:200]}" if lines else ""


def last_lines(message: str) -> str:
    """The last lines of a termination message."""
    return "\n".join(message.strip().splitlines()[-_MAX_LINES:])


def _last_termination(container: Json) -> ContainerTermination:
    last = as_object(as_object(container.get("lastState")).get("terminated"))
    return ContainerTermination(
        name=text(container.get("name")),
        code=last.get("exitCode") or 0,
        reason=text(last.get("reason")),
        message=text(last.get("message")),
    )


def _termination_evidence(
    view: TaskView, termination: ContainerTermination, field: str
) -> tuple[Evidence, ...]:
    found = [view.evidence(f"{field}.exitCode", termination.code)]
    if termination.reason:
        found.append(view.evidence(f"{field}.reason", termination.reason))
    if termination.message.strip():
        found.append(view.evidence(f"{field}.message", last_lines(termination.message)))
    return tuple(found)


def _completion_evidence(
    view: TaskView, completion: Completion, termination: ContainerTermination | None
) -> tuple[Evidence, ...]:
    if termination is not None:
        return _termination_evidence(
            view, termination, f"status.containerStatuses[{termination.name}].state.terminated"
        )
    field = f"status.taskRoleStatuses[{view.role_name}].taskStatuses[{view.task.index}]"
    value = completion.diagnostics or completion.summary
    return (Evidence(view.context.reference, f"{field}.attemptStatus.completionStatus", value[:500]),)


def _is_init(view: TaskView, name: str) -> bool:
    return any(as_object(each).get("name") == name for each in as_list(view.pod_spec.get("initContainers")))


#: Completions that follow from another one, and are not reported.
CONSEQUENCES: Final = frozenset(
    {Code.FRAMEWORK_ATTEMPT_COMPLETION, Code.DELETE_TASK_REQUESTED, Code.STOP_FRAMEWORK_REQUESTED}
)
