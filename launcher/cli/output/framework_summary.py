"""The state of a Framework in one word, and the other cells of its row."""

from typing import Any

from launcher.cli.output.terminal import one_line
from launcher.core import timestamps
from launcher.core.replicas import tasks_of_roles
from launcher.core.timestamps import parse_rfc3339

Json = dict[str, Any]

_COMPLETED, _ATTEMPT_COMPLETED, _RUNNING = "Completed", "AttemptCompleted", "AttemptRunning"
#: A task whose pod is kept during the back-off before its retry.
_DELETION_PENDING = "AttemptDeletionPending"
#: The completion code of a Framework that its user stopped.
STOP_FRAMEWORK_REQUESTED = -210


def state_of(framework: Json, now: float) -> str:
    """
    ``Running``, ``Succeeded``, ``Retrying in 7s``, …

    That is the state without ``Attempt``; of a completed Framework, its result.
    """
    status = framework.get("status") or {}
    if framework["metadata"].get("deletionTimestamp"):
        return "Deleting"
    if not status:
        return "New"
    if is_completed(framework):
        return result_of(framework)
    if has_condition(framework, "Suspended"):
        return "Suspended"
    return short_state(status, now)


def short_state(status: Json, now: float) -> str:
    """The state of a Framework or task that has not completed, without ``Attempt``."""
    state: str = status["state"]
    delay = (status.get("retryPolicyStatus") or {}).get("retryDelaySec")
    completed = (status.get("attemptStatus") or {}).get("completionTime")
    if state in (_ATTEMPT_COMPLETED, _DELETION_PENDING) and delay is not None and completed is not None:
        left = parse_rfc3339(completed) + delay - now
        return f"Retrying in {timestamps.age(left)}" if left >= 1 else "Retrying"
    # Not "Completed", which is the final state.
    return state if state == _ATTEMPT_COMPLETED else state.removeprefix("Attempt")


def result_of(framework: Json) -> str:
    """``Succeeded``, ``Failed`` or ``Stopped``: how a completed Framework ended."""
    if succeeded(framework):
        return "Succeeded"
    return "Stopped" if completion_of(framework).get("code") == STOP_FRAMEWORK_REQUESTED else "Failed"


def is_completed(framework: Json) -> bool:
    return (framework.get("status") or {}).get("state") == _COMPLETED


def succeeded(framework: Json) -> bool:
    """Whether the Framework has completed successfully."""
    return is_completed(framework) and completion_of(framework).get("type", {}).get("name") == "Succeeded"


def completion_of(framework: Json) -> Json:
    """The completionStatus of the current attempt; empty before it completes."""
    return attempt_status(framework).get("completionStatus") or {}


def attempt_status(framework: Json) -> Json:
    """The status of the current attempt; empty before there is one."""
    return (framework.get("status") or {}).get("attemptStatus") or {}


def is_waiting(framework: Json) -> bool:
    """Whether the Framework waits for something else than the tasks that run: for nodes, a retry, or its deletion."""
    if framework["metadata"].get("deletionTimestamp"):
        return True
    counts = (framework.get("status") or {}).get("taskCounts") or {}
    all_run = bool(counts) and counts.keys() <= {_RUNNING, _COMPLETED}
    return not is_completed(framework) and not all_run


def has_run(framework: Json) -> bool:
    """Whether a task of the Framework is running or has run."""
    return bool((framework.get("status") or {}).get("runTime"))


def has_condition(framework: Json, kind: str) -> bool:
    """Whether the condition of that type is true."""
    conditions = (framework.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def message_of(framework: Json) -> str:
    """The message of the status, in one line."""
    return one_line((framework.get("status") or {}).get("message") or "")


def finished_tasks(framework: Json) -> str:
    """``3/8``: completed and all tasks."""
    counts = (framework.get("status") or {}).get("taskCounts")
    if counts is None:
        return f"0/{sum(tasks_of_roles(framework['spec']))}"
    return f"{counts.get(_COMPLETED, 0)}/{sum(counts.values())}"


def attempt_of(framework: Json) -> str:
    """``2 of 3``: the current attempt of the whole Framework."""
    retry_status = (framework.get("status") or {}).get("retryPolicyStatus") or {}
    return attempt_text(retry_status, framework["spec"].get("retryPolicy"))


def attempt_text(retry_status: Json, policy: Json | None) -> str:
    """``2 of 3``: the current attempt and, where *policy* limits the retries, the last one."""
    retried = int(retry_status.get("totalRetriedCount") or 0)
    limit = int((policy or {}).get("maxRetryCount") or 0)
    # As in the messages of the planner: a retry that does not count (fancyRetryPolicy) adds an attempt.
    last = 1 + limit + retried - int(retry_status.get("accountableRetriedCount") or 0)
    return f"{retried + 1} of {last}" if limit > 0 and retried < last else str(retried + 1)


def age_of(framework: Json, now: float) -> str:
    """The time since the creation."""
    return timestamps.format_age(framework["metadata"].get("creationTimestamp"), now)


def duration_of(framework: Json, now: float) -> str:
    """The time between the start and the completion, or until *now*."""
    status = framework.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    return timestamps.age((parse_rfc3339(end) if end else now) - parse_rfc3339(status["startTime"]))


def headline(framework: Json, now: float) -> str:
    """``mnist: Running for 3m20s, attempt 2 of 3, 3/4 finished``."""
    state, duration = state_of(framework, now), duration_of(framework, now)
    if not duration:
        timing = ""
    elif is_completed(framework):
        timing = f" after {duration}"
    else:
        timing = f" for {duration}" if state == "Running" else f", started {duration} ago"
    words = [state + timing]
    attempt = attempt_of(framework)
    if attempt != "1":
        words.append(f"attempt {attempt}")
    words.append(f"{finished_tasks(framework)} finished")
    return f"{framework['metadata']['name']}: {', '.join(words)}"


def exit_code(framework: Json) -> int:
    """The exit code of a command after this completion: the completion's code where that is an exit code, else 1."""
    code = int(completion_of(framework).get("code") or 0)
    if succeeded(framework):
        return 0
    return code if 1 <= code <= 255 else 1
