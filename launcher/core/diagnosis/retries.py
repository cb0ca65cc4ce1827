"""Attempts that wait for their retry, and those that are not retried."""

from typing import Final

from launcher.core import causes
from launcher.core.completion_codes import Completion
from launcher.core.diagnosis.failures import explain_completion
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import Context, TaskView, parsed_time
from launcher.core.json_access import as_object
from launcher.core.planning import messages, retry
from launcher.core.planning.retry import GiveUp, RetryBackoff, after_completion
from launcher.core.spec import RetryPolicy
from launcher.core.status import RetryStatus, State
from launcher.core.timestamps import Time

#: Earlier attempts of a task that are listed.
_MAX_ATTEMPTS: Final = 5


def explain_task_backoff(view: TaskView) -> Problem:
    """A task whose attempt failed and is retried later."""
    attempt, status = view.task.attempt, view.task.retry
    assert attempt.completion is not None, "an attempt that is retried has completed"
    reason = messages.describe_completion(attempt.completion, view.role)
    left = _seconds_left(attempt.completion_time, status.delay, view.context.now)
    evidence = explain_completion(view, attempt.completion).evidence
    policy = view.role.retry if view.role is not None else RetryPolicy()
    return Problem(
        causes.TASK_BACKOFF,
        f"{reason}; attempt {status.total + 2} starts in {left}s ({retry_text(policy, status)})",
        view.logs_command,
        (*evidence, *_attempts(view)),
    )


def explain_framework_backoff(context: Context) -> Problem | None:
    """A Framework between two attempts; None if it is not."""
    status = context.framework.status
    if status is None or status.state is not State.ATTEMPT_COMPLETED or status.retry.delay is None:
        return None
    left = _seconds_left(status.attempt.completion_time, status.retry.delay, context.now)
    policy = context.framework.spec.retry
    return Problem(
        causes.FRAMEWORK_BACKOFF,
        f"attempt {status.retry.total + 1} failed; attempt {status.retry.total + 2} starts in {left}s "
        f"({retry_text(policy, status.retry)})",
        context.command("get"),
        (Evidence(context.reference, "status.retryPolicyStatus.retryDelaySec", str(status.retry.delay)),),
    )


def explain_exhausted(context: Context) -> Problem | None:
    """A Framework that failed and is not retried; None if it did not fail, or was stopped."""
    status = context.framework.status
    completion = status.attempt.completion if status is not None else None
    if status is None or status.state is not State.COMPLETED or completion is None or completion.succeeded:
        return None
    if completion.code in retry.NEVER_RETRIED:
        return None
    reason = _give_up_reason(context.framework.spec.retry, completion, status.retry)
    policy = context.framework.spec.retry
    evidence = (
        Evidence(context.reference, "spec.retryPolicy.maxRetryCount", str(policy.max_retries)),
        Evidence(
            context.reference,
            "status.retryPolicyStatus",
            f"total {status.retry.total}, accountable {status.retry.accountable}",
        ),
    )
    if policy.max_retries > 0 and status.retry.accountable >= policy.max_retries:
        return Problem(
            causes.RETRIES_EXHAUSTED,
            f"attempt {status.retry.total + 1} was the last: {retry_text(policy, status.retry)}",
            "raise spec.retryPolicy.maxRetryCount and submit the Framework again",
            evidence,
        )
    return Problem(
        causes.NOT_RETRIED,
        f"the Framework is not retried: {reason}",
        "set spec.retryPolicy and submit the Framework again",
        evidence,
    )


def explain_exhausted_task(view: TaskView) -> Problem | None:
    """A failed task that has used all of its retries; None if it has some left, or its role has none."""
    policy = view.role.retry if view.role is not None else RetryPolicy()
    status = view.task.retry
    if policy.max_retries <= 0 or status.accountable < policy.max_retries:
        return None
    return Problem(
        causes.RETRIES_EXHAUSTED,
        f"attempt {status.total + 1} was its last: {retry_text(policy, status)}",
        f"{view.context.command('attempts', f'{view.role_name}/{view.task.index}')}; raise "
        f"spec.taskRoles[{view.role_name}].task.retryPolicy.maxRetryCount",
        _attempts(view),
    )


def _attempts(view: TaskView) -> tuple[Evidence, ...]:
    """The latest attempts before the current one: how each ended, and whether its retry counted."""
    field = f"status.taskRoleStatuses[{view.role_name}].taskStatuses[{view.task.index}].attemptHistory"
    return tuple(
        Evidence(
            view.context.reference,
            f"{field}[{attempt.id}]",
            f"{attempt.reason}; {'counted' if attempt.counted else f'not counted: {attempt.uncounted_reason}'}",
        )
        for attempt in view.task.history[-_MAX_ATTEMPTS:]
    )


def explain_previous_pod(view: TaskView) -> Problem:
    """A task whose pod of an earlier attempt has to be deleted before the next one begins."""
    end = as_object((view.pod or {}).get("metadata")).get("deletionTimestamp")
    left = _seconds_left(parsed_time(end), 0, view.context.now) if end else 0
    grace = f"; its grace period ends in {left}s" if left else ""
    return Problem(
        causes.PREVIOUS_POD,
        f"the pod of the previous attempt is still being deleted{grace}",
        f"wait for its grace period, or force it: {view.context.kubectl('delete pod', view.pod_name, '--force')}",
        (view.evidence("metadata.deletionTimestamp", end or "none"),),
    )


def retry_text(policy: RetryPolicy, status: RetryStatus) -> str:
    """``1 of 3 retries used, 2 not counted``."""
    uncounted = status.total - status.accountable
    limit = {-1: "unlimited retries", -2: "unlimited retries"}.get(
        policy.max_retries, f"{status.accountable} of {policy.max_retries} retries used"
    )
    return limit + (f", {uncounted} not counted" if uncounted else "")


def _give_up_reason(policy: RetryPolicy, completion: Completion, status: RetryStatus) -> str:
    decision = after_completion(policy, completion, status, duration=0, backoff=RetryBackoff())
    return decision.reason if isinstance(decision, GiveUp) else "the policy was changed since"


def _seconds_left(since: Time | None, delay: int | None, now: Time) -> int:
    return max(0, (since or now) + (delay or 0) - now)
