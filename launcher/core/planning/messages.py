"""
Every status, condition and event message that planning writes.

A status message is one or more sentences with a capital letter and a full stop. A description of a completion is a
clause without either, so that it can follow "Task worker-0 failed: ".
"""

from collections.abc import Mapping, Sequence
from signal import Signals
from typing import Any

from launcher.core.completion_codes import PREDEFINED, UNRECOGNIZED, Code, Completion, ContainerTermination
from launcher.core.spec import RoleName, StartAfter, TaskRole
from launcher.core.status import Trigger

# Framework.
SUSPENDED = "Suspended: executionType is Create."
STOP_REQUESTED = "Stopped: executionType is Stop."
STOPPED = "Stopped"
FRAMEWORK_DELETING = "The Framework is being deleted."
ATTEMPT_RUNNING = "At least one task is running."
NO_TASKS = "The Framework has no tasks."
SCALED_TO_ZERO = "Scaled to 0 tasks; no pods are created until a role is scaled up."
WAITING_FOR_CONTAINERS = "Waiting for containers to start."
SPEC_CORRECTED = "The spec is valid again."

# Tasks.
POD_CREATED = "The pod was created."
POD_DELETED = "The pod was deleted by another client."
POD_DELETING = "The pod is being deleted by another client."
POD_KEEPS_RUNNING = "The attempt completed; the pod keeps running (cleanPodPolicy None)."
NOT_RETRIED_ATTEMPT_COMPLETED = "Not retried: the attempt completed."
STOPPED_WITH_ATTEMPT = "Stopped because the attempt completed."
WAITING_FOR_PREVIOUS_POD = "Waiting for the pod of a previous attempt to be deleted."
REMOVED = "Removed by a scale-down."
SCALED_DOWN = "the task was removed by a scale-down"

# Gangs.
GANG_REMOVED = "spec.gang was removed; tasks are scheduled individually."

#: Completions of pods and containers whose phrase alone does not explain them.
_CAUSES: Mapping[str, str] = {
    "PodEvicted": "the node evicted the pod",
    "PodNodeLost": "the node was lost",
    "PodScheduledToInsufficientResourceNode": "the node rejected the pod: insufficient resources",
    "PodPreemptedForCriticalPod": "the pod was preempted for a critical pod",
    "PodDeadlineExceeded": "activeDeadlineSeconds of the pod exceeded",
    "PodNodeAdmissionForbidden": "the node rejected the pod",
    "PodNodeAdmissionUnexpectedError": "the node rejected the pod: unexpected error",
    "PodNodeShutdown": "the node shut down",
    "PodDisrupted": "the pod was disrupted",
    "ContainerDockerCreationError": "the container could not be created",
    "ContainerDockerStartCmdPermissionDenied": "the command could not be started: permission denied",
    "ContainerDockerStartCmdNotFound": "the command could not be started: not found",
    "ContainerDockerStartUnknownError": "the container could not be started",
    "ContainerStatusUnknown": "the node lost the status of the container",
    PREDEFINED[Code.POD_FAILED_WITHOUT_FAILED_CONTAINER].phrase: "the pod failed without a failed container",
}
_OUT_OF_MEMORY_PHRASE = "ContainerDockerOOMKilled"
_OUT_OF_MEMORY_REASON = "OOMKilled"
#: Maximum length of the last output in a message.
MAX_OUTPUT_CHARACTERS = 300
#: A shell's convention: a process ended by signal n exits with 128 + n.
_SIGNAL_BASE = 128
_SIGNAL_PHRASE_PREFIX = "ContainerSig"


def task_name(role: RoleName, index: int) -> str:
    """``worker-0``, as in the name of the task's pod."""
    return f"{role}-{index}"


def describe_completion(completion: Completion, role: TaskRole | None = None) -> str:
    """
    The cause of a completion as a clause: ``container main exited with code 7``.

    *role* is the task's role; its template supplies the memory limit of a container that ran out of memory.
    """
    if completion.succeeded:
        return "succeeded"
    if completion.phrase in _CAUSES:
        return _CAUSES[completion.phrase]
    if completion.phrase == _OUT_OF_MEMORY_PHRASE:
        return _describe_out_of_memory(completion, role)
    container = failed_container(completion)
    if container is None and completion.code < 0:
        if completion.code in PREDEFINED and completion.diagnostics:
            return _clause(completion.diagnostics)
        return f"{completion.phrase} ({completion.code})"
    code = completion.code if container is None else container.code
    return f"{_subject(container)} {_describe_exit(code)}{_phrase_suffix(completion, code)}"


def failed_container(completion: Completion) -> ContainerTermination | None:
    """The container whose exit decided *completion*; None when the pod ended without one, or is not known."""
    if completion.pod is None:
        return None
    failed = [container for container in completion.pod.containers if container.code]
    exact = [container for container in failed if container.code == completion.code]
    return next(iter(exact or failed[-1:]), None)


def _describe_out_of_memory(completion: Completion, role: TaskRole | None) -> str:
    containers = completion.pod.containers if completion.pod is not None else ()
    killed = next((container for container in containers if container.reason == _OUT_OF_MEMORY_REASON), None)
    limit = _memory_limit(role, killed.name) if killed is not None else None
    suffix = f" (limit {limit})" if limit else ""
    return f"{_subject(killed)} was killed: out of memory{suffix}; raise resources.limits.memory"


def _memory_limit(role: TaskRole | None, container: str) -> Any:
    spec = (role.pod.get("spec") or {}) if role is not None else {}
    for candidate in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if candidate.get("name") == container:
            return ((candidate.get("resources") or {}).get("limits") or {}).get("memory")
    return None


def _subject(container: ContainerTermination | None) -> str:
    return f"container {container.name}" if container is not None and container.name else "the container"


def _describe_exit(code: int) -> str:
    try:
        return f"was killed by {Signals(code - _SIGNAL_BASE).name} (exit code {code})"
    except ValueError:
        return f"exited with code {code}"


def _phrase_suffix(completion: Completion, code: int) -> str:
    """The phrase, where it says more than the exit code."""
    if completion.phrase == UNRECOGNIZED or completion.phrase.startswith(_SIGNAL_PHRASE_PREFIX):
        return ""
    own = "" if completion.code == code else f" {completion.code}"
    return f" ({completion.phrase}{own})"


def _clause(text: str) -> str:
    """*text* without its capital letter and full stop."""
    first = text.split(maxsplit=1)[0]
    return (text[0].lower() + text[1:] if first[1:].islower() else text).removesuffix(".")


def sentence(clause: str) -> str:
    """*clause* with a capital letter and a full stop. The name of a field keeps its spelling."""
    if not clause:
        return ""
    first = clause.split(maxsplit=1)[0].rstrip(":,;")
    is_field = not first.isalpha() or not first.islower()
    text = clause if is_field else clause[0].upper() + clause[1:]
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def retrying(description: str, delay: int, reason: str) -> str:
    """The message of a scheduled retry. It stays while the time passes, so it names the whole back-off."""
    when = f" after {delay}s" if delay else ""
    return f"{sentence(description)} Retrying{when}: {reason}."


def not_retried(description: str, reason: str) -> str:
    return f"{sentence(description)} Not retried: {reason}."


def attempt_started(reason: str, previous: str) -> str:
    """The message of attempt 2 and later ones."""
    return f"{sentence(reason)} Previous attempt: {previous.removesuffix('.')}."


def unobserved_pod(seconds: int) -> str:
    return f"The pod was created but not observed within {seconds}s."


def pending_deadline(seconds: int, reason: str) -> str:
    return f"pendingDeadlineSeconds ({seconds}) exceeded" + (
        f" ({reason.removesuffix('.')})" if reason else ""
    )


def start_failed(reason: str) -> str:
    return f"the pod can never start: {reason.removesuffix('.')}"


def stalled(seconds: int | None, lines: Sequence[str]) -> str:
    """The task stalled; with its last lines of output."""
    return f"no output and no heartbeat for {seconds}s (progressDeadlineSeconds){_last_output(lines)}"


def stopped_with_output(message: str, lines: Sequence[str]) -> str:
    """The message of a task that was stopped with others, with its last lines of output."""
    return message + (f" Last output: {_joined(lines)}" if lines else "")


def _last_output(lines: Sequence[str]) -> str:
    return f"; last output: {_joined(lines)}" if lines else "; it has written nothing"


def _joined(lines: Sequence[str]) -> str:
    """The lines in one, shortened in front: the end says most."""
    text = " / ".join(lines)
    return text if len(text) <= MAX_OUTPUT_CHARACTERS else f"…{text[-MAX_OUTPUT_CHARACTERS + 1 :]}"


def active_deadline(seconds: int | None) -> str:
    return f"activeDeadlineSeconds ({seconds}) exceeded"


def instead_of_retry(cause: str, description: str) -> str:
    """The Framework was stopped, or its deadline passed, between two attempts."""
    return f"{cause} while waiting to retry. Previous attempt: {description.removesuffix('.')}."


def attempt_completed(reason: str) -> str:
    return f"Attempt completed. {reason}"


def attempt_not_recorded(error: Exception) -> str:
    return f"The completed attempt is not kept as a FrameworkAttempt: {error}"


def ttl_expired(seconds: int) -> str:
    return f"ttlSecondsAfterFinished ({seconds}) expired"


def invalid_spec(errors: str) -> str:
    return f"Invalid spec, no pods are created: {errors}"


def framework_completed(
    completion: Completion, trigger: Trigger | None, description: str, reason: str
) -> str:
    """The final message: the task that failed, the rule that this met, and *reason*, why there is no retry."""
    if completion.succeeded:
        return trigger.message if trigger is not None else "Succeeded."
    parts = [sentence(description)]
    if trigger is not None:
        parts = [trigger.message]
        if trigger.role is not None and trigger.index is not None:
            parts.insert(0, f"Task {task_name(trigger.role, trigger.index)} failed: {description}.")
    if reason:
        # The tasks have retries of their own.
        parts.append(f"Framework not retried: {reason}.")
    return " ".join(parts)


def tasks_running(running: int, total: int, waiting: str = "") -> str:
    """``2 of 2 tasks running.``, and what the first task that does not run is waiting for."""
    return f"{running} of {total} tasks running." + (f" {waiting}" if waiting else "")


def waiting_for_scheduling(unscheduled: int, total: int) -> str:
    return f"Waiting for {unscheduled} of {total} tasks to be scheduled."


def waiting_for_start_after(after: StartAfter) -> str:
    return f"Waiting for {_start_after_tasks(after)} to be {after.condition} (startAfter)."


def start_after_unreachable(after: StartAfter) -> str:
    return f"startAfter can no longer be met: {_start_after_tasks(after)} cannot become {after.condition}"


def _start_after_tasks(after: StartAfter) -> str:
    return (
        f"{after.at_least} tasks of role {after.role}" if after.at_least is not None else f"role {after.role}"
    )


def waiting_for_sequence(earlier: RoleName) -> str:
    return f"Waiting for all pods of role {earlier} to be created (roleSequence)."


def failed_tasks(role: RoleName, failed: int, minimum: int) -> str:
    return f"Role {role}: {_tasks(failed, 'failed')} reached minFailedTaskCount {minimum}."


def succeeded_tasks(role: RoleName, succeeded: int, minimum: int) -> str:
    return f"Role {role}: {_tasks(succeeded, 'succeeded')} reached minSucceededTaskCount {minimum}."


def succeeded_indexes(role: RoleName) -> str:
    return f"Role {role}: all tasks in succeededIndexes succeeded."


def all_tasks_completed(succeeded: int, failed: int) -> str:
    total = succeeded + failed
    number = f"{total} " if total != 1 else ""
    return f"All {number}tasks completed: {succeeded} succeeded, {failed} failed."


def _tasks(number: int, kind: str) -> str:
    return f"{number} {kind} task" + ("" if number == 1 else "s")


def gang_progress(scheduled: int, total: int, minimum: int, reason: str) -> str:
    suffix = "" if minimum == total else f" (minTasks {minimum})"
    return f"{scheduled} of {total} tasks have a node{suffix}." + (f" {reason}" if reason else "")


def gang_unschedulable(backend: str, progress: str) -> str:
    by = f" by {backend}" if backend else ""
    return f"Gang not scheduled{by}: {progress}"


def gang_scheduled(scheduled: int, total: int, backend: str) -> str:
    number = f"All {total}" if scheduled == total else f"{scheduled} of {total}"
    by = f" by {backend}" if backend else ""
    return f"{number} tasks of the gang are scheduled{by}."


def gang_timeout(seconds: int, progress: str) -> str:
    return f"gang.timeoutSeconds ({seconds}) exceeded: {progress}"


def gang_member_lost(role: RoleName, index: int, minimum: int) -> str:
    return f"Task {task_name(role, index)} completed before the gang was scheduled; {minimum} tasks are required."
