"""How an attempt ends from outside (deletion, Stop, the deadline), what follows an end, and what is said of it."""

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.framework import Framework
from launcher.core.planning import retry
from launcher.core.planning.options import PlannerOptions
from launcher.core.spec import ExecutionType, FrameworkSpec
from launcher.core.status import FrameworkAttempt, FrameworkStatus
from launcher.core.timestamps import Time

DELETED = "the Framework is being deleted"

#: Ends after which running pods are stopped whatever ``cleanPodPolicy`` says.
ALWAYS_STOPS = frozenset({int(Code.STOP_FRAMEWORK_REQUESTED), int(Code.ACTIVE_DEADLINE_EXCEEDED)})


def interrupting_completion(framework: Framework, status: FrameworkStatus, now: Time) -> Completion | None:
    """How an attempt that is under way has to end now; None when it may go on."""
    if framework.deleting:
        return completion_for(Code.FRAMEWORK_EXTERNAL_DELETED, DELETED)
    if framework.spec.execution is ExecutionType.STOP:
        return completion_for(Code.STOP_FRAMEWORK_REQUESTED, "executionType is Stop")
    due = deadline(framework.spec, status)
    if due is not None and now >= due:
        return completion_for(Code.ACTIVE_DEADLINE_EXCEEDED, deadline_words(framework.spec))
    return None


def deadline(spec: FrameworkSpec, status: FrameworkStatus) -> Time | None:
    """When the Framework's time is over; None: never, or not before it has started."""
    limit, started = spec.active_deadline_seconds, status.condition("Started")
    return None if limit is None or started is None else started.since + limit


def deadline_words(spec: FrameworkSpec) -> str:
    return f"activeDeadlineSeconds is over: {spec.active_deadline_seconds} s after its start"


def retry_decision(
    spec: FrameworkSpec,
    status: FrameworkStatus,
    end: Completion,
    rules: PlannerOptions,
    now: Time,
    chance: float,
) -> retry.Retry | retry.GiveUp:
    """Whether another attempt follows the one that ended so, and when."""
    attempt = status.attempt
    least, most = rules.conflict_delay
    begun = attempt.run_time if attempt.run_time is not None else attempt.start_time
    return retry.after_completion(
        spec.retry,
        end,
        status.retry,
        lasted=(attempt.completion_time or now) - begun,
        backoff=rules.backoff,
        conflict_delay=least + int(chance * (most - least + 1)),
    )


def completion_message(attempt: FrameworkAttempt, because: str) -> str:
    """Why the Framework ended as it did, and why it is not tried again."""
    end, trigger = attempt.completion, attempt.trigger
    if end is None:
        raise ValueError("an attempt that is over has a completion")
    words = [end.summary]
    if trigger is not None:
        words.append(trigger.message)
    elif end.failed:
        words.append(end.diagnostics)
    if end.failed and end.code not in retry.NEVER_RETRIED:
        words.append(f"not tried again: {because}")
    return "; ".join(words)


def ttl_seconds(spec: FrameworkSpec, rules: PlannerOptions) -> int:
    """Seconds after which a finished Framework goes."""
    return spec.ttl_seconds if spec.ttl_seconds is not None else rules.default_ttl_seconds
