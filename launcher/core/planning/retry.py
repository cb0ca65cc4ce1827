"""Retry decisions: whether a completed attempt is retried, when and why. The same rules for Frameworks and tasks."""

from dataclasses import dataclass, replace
from typing import TypeVar

from launcher.core.completion_codes import Attribute, Code, Completion
from launcher.core.spec import RETRY_ALWAYS, RETRY_ANY_FAILURE, RetryPolicy
from launcher.core.status import RetryStatus
from launcher.core.timestamps import Time

#: Completions that were requested; no policy retries them.
NEVER_RETRIED: frozenset[int] = frozenset(
    {
        Code.STOP_FRAMEWORK_REQUESTED,
        Code.ACTIVE_DEADLINE_EXCEEDED,
        Code.FRAMEWORK_ATTEMPT_COMPLETION,
        Code.DELETE_TASK_REQUESTED,
    }
)


Seconds = TypeVar("Seconds", int, float)


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """Delays of consecutive retries: none, *first_seconds*, then doubled up to *max_seconds*."""

    first_seconds: int = 10
    max_seconds: int = 300
    #: An attempt of this duration resets the delay.
    reset_after_seconds: int = 600

    def delay(self, quick: int) -> int:
        """Seconds before the retry that follows *quick* consecutive retries."""
        return retry_delay(quick, self.first_seconds, self.max_seconds)


def retry_delay(consecutive: int, first: Seconds, maximum: Seconds) -> Seconds:
    """Returns the delay after so many consecutive retries: 0 for none, then *first*, then doubled up to *maximum*."""
    # The maximum is reached long before 2**30; the bound keeps the number small.
    return min(maximum, first * 2 ** min(consecutive - 1, 30)) if consecutive else first * 0


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt is retried after *delay* seconds."""

    delay: int
    accountable: bool
    quick: int
    reason: str
    #: The number of counted retries that remain after this one; None: unlimited.
    left: int | None = None
    #: Why the retry does not count; empty if it does.
    uncounted_reason: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The attempt is not retried."""

    reason: str


def after_completion(
    policy: RetryPolicy,
    completion: Completion,
    status: RetryStatus,
    *,
    duration: int,
    backoff: RetryBackoff,
    conflict_delay: int = 0,
) -> Retry | GiveUp:
    """
    Decides what follows an attempt that completed with *completion* after *duration* seconds.

    *conflict_delay* is the minimum delay after a resource conflict. A scheduled retry is executed even if the policy
    has changed since; whether it counts depends on the current policy.
    """
    reason = _permits(policy, completion, status)
    quick = 0 if duration >= backoff.reset_after_seconds else status.consecutive_quick_retries
    if status.delay is not None:
        reason = (
            reason
            if isinstance(reason, str)
            else f"{_next_attempt(status)} (scheduled before the policy changed)"
        )
        return _retry(policy, completion, status, status.delay, quick + 1, reason)
    if isinstance(reason, GiveUp):
        return reason
    delay = backoff.delay(quick)
    if policy.fancy and completion.failed and _is_conflict(completion):
        delay = max(delay, conflict_delay)
    return _retry(policy, completion, status, delay, quick + 1, reason)


def _retry(
    policy: RetryPolicy, completion: Completion, status: RetryStatus, delay: int, quick: int, reason: str
) -> Retry:
    uncounted = uncounted_reason(policy, completion)
    left = retries_left(policy, status.accountable + (not uncounted))
    return Retry(delay, not uncounted, quick, reason, left, uncounted)


def retries_left(policy: RetryPolicy, used: int) -> int | None:
    """The number of counted retries that remain after *used* ones; None: unlimited."""
    return max(0, policy.max_retries - used) if policy.max_retries >= 0 else None


def due(since: Time, delay: int, now: Time) -> Time:
    """
    Returns the end of a delay of *delay* seconds that began at *since*.

    It ends now if the end is further away than twice the delay: then the clock was set back.
    """
    end = since + delay
    return end if end - now <= 2 * delay else now


def uncounted_reason(policy: RetryPolicy, completion: Completion) -> str:
    """Why a retry after *completion* does not count towards ``maxRetryCount``; empty if it does."""
    by_kind = policy.fancy and completion.failed and not _is_by_exit_code(policy, completion)
    if not by_kind or Attribute.TRANSIENT not in completion.attributes:
        return ""
    return "transient resource conflict" if _is_conflict(completion) else "transient failure"


def with_scheduled_retry(status: RetryStatus, retry: Retry) -> RetryStatus:
    """Returns the status with a scheduled retry; one without a delay is not recorded."""
    return replace(status, delay=retry.delay) if retry.delay else status


def with_executed_retry(status: RetryStatus, retry: Retry) -> RetryStatus:
    """Returns the counters after *retry* was executed."""
    return replace(
        status,
        total=status.total + 1,
        accountable=status.accountable + retry.accountable,
        delay=None,
        consecutive_quick_retries=retry.quick,
    )


def _is_conflict(completion: Completion) -> bool:
    return completion.attributes >= {Attribute.TRANSIENT, Attribute.CONFLICT}


def _permits(policy: RetryPolicy, completion: Completion, status: RetryStatus) -> str | GiveUp:
    """Returns why the attempt is retried, or GiveUp. The first rule that matches decides."""
    limit, used = policy.max_retries, status.accountable
    if completion.code in NEVER_RETRIED:
        return GiveUp(f"{completion.phrase} is never retried")
    if completion.failed and (decision := _by_failure(policy, completion, status)) is not None:
        return decision
    if limit == RETRY_ALWAYS:
        return f"{_next_attempt(status)} (maxRetryCount -2 retries after success and failure)"
    if not completion.failed:
        return GiveUp("the attempt succeeded")
    if limit == RETRY_ANY_FAILURE:
        return f"{_next_attempt(status)} (maxRetryCount -1 retries every failure)"
    if used < limit:
        return f"{_next_attempt(status)} of {1 + limit + status.total - used}"
    return GiveUp(f"no retries left ({used} of {limit} used)" if limit else "maxRetryCount is 0")


def _next_attempt(status: RetryStatus) -> str:
    """``attempt 2``: the first attempt is 1, and *status* counts the retries so far."""
    return f"attempt {status.total + 2}"


def _by_failure(policy: RetryPolicy, completion: Completion, status: RetryStatus) -> str | GiveUp | None:
    """Returns the decision by the kind of failure; None if the number of retries decides."""
    if _is_by_exit_code(policy, completion):
        code = _exit_code(completion)
        if code in (policy.exit_codes or ()):
            return None
        if code is None:
            return GiveUp("the pod has no exit code to compare with retryableExitCodes")
        return GiveUp(f"exit code {code} is not in retryableExitCodes")
    if not policy.fancy:
        return None
    if kind := uncounted_reason(policy, completion):
        return f"{_next_attempt(status)} ({kind}, not counted: fancyRetryPolicy)"
    if Attribute.PERMANENT in completion.attributes:
        return GiveUp("permanent failure (fancyRetryPolicy)")
    return None


def _is_by_exit_code(policy: RetryPolicy, completion: Completion) -> bool:
    """Whether retryableExitCodes decide. Without an exit code, fancyRetryPolicy may decide instead."""
    return policy.exit_codes is not None and not (policy.fancy and _exit_code(completion) is None)


def _exit_code(completion: Completion) -> int | None:
    """The exit code of the container that failed; None if the pod has none, or never existed."""
    codes = (
        [container.code for container in completion.pod.containers if container.code]
        if completion.pod is not None
        else []
    )
    if completion.code in codes or not codes:
        return completion.code if completion.code > 0 else None
    return codes[-1]
