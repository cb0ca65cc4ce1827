"""Whether an attempt that ended runs again, when and why: one table for Frameworks and tasks."""

from dataclasses import dataclass, replace

from launcher.core.completion_codes import Attribute, Code, Completion
from launcher.core.spec import RETRY_ALWAYS, RETRY_ANY_FAILURE, RetryPolicy
from launcher.core.status import RetryStatus
from launcher.core.timestamps import Time

#: Ends that somebody asked for: no policy runs such an attempt again.
NEVER_RETRIED: frozenset[int] = frozenset(
    {
        Code.STOP_FRAMEWORK_REQUESTED,
        Code.ACTIVE_DEADLINE_EXCEEDED,
        Code.FRAMEWORK_ATTEMPT_COMPLETION,
        Code.DELETE_TASK_REQUESTED,
    }
)

#: What is said of budgets that would not read well as a number.
_USED_UP = {0: "maxRetryCount is 0", 1: "its one retry is used up"}


@dataclass(frozen=True, slots=True)
class RetryBackoff:
    """How retries in a row are spaced out: at once, *first*, then double up to *most* seconds."""

    first: int = 10
    most: int = 300
    #: An attempt that lasted this long ends the row.
    reset_after_seconds: int = 600

    def delay(self, quick: int) -> int:
        """Seconds before the retry that follows *quick* quick ones."""
        # Beyond 2**20 the cap has long been reached; the bound keeps the number small.
        return 0 if quick == 0 else min(self.most, self.first << min(quick - 1, 20))


@dataclass(frozen=True, slots=True)
class Retry:
    """It runs again after *delay* seconds."""

    delay: int
    accountable: bool
    quick: int
    because: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It does not run again."""

    because: str


def after_completion(
    policy: RetryPolicy,
    completion: Completion,
    status: RetryStatus,
    *,
    lasted: int,
    backoff: RetryBackoff,
    conflict_delay: int = 0,
) -> Retry | GiveUp:
    """
    What follows an attempt that ended with *completion* after *lasted* seconds.

    *conflict_delay* is how long to stay away after a conflict over resources. A retry that was scheduled is carried
    out even if the policy has changed since; whether it counts follows the policy of now.
    """
    because = _permits(policy, completion, status)
    quick = 0 if lasted >= backoff.reset_after_seconds else status.consecutive_quick_retries
    if status.delay is not None:
        because = because if isinstance(because, str) else "it was scheduled before the policy changed"
        return Retry(status.delay, is_accountable(policy, completion), quick + 1, because)
    if isinstance(because, GiveUp):
        return because
    delay = backoff.delay(quick)
    if policy.fancy and completion.failed and _is_conflict(completion):
        delay = max(delay, conflict_delay)
    return Retry(delay, is_accountable(policy, completion), quick + 1, because)


def due(since: Time, delay: int, now: Time) -> Time:
    """
    When a pause of *delay* seconds that began at *since* is over.

    It is over at once when that is further away than twice the pause: then the clock was set back since it began.
    """
    end = since + delay
    return end if end - now <= 2 * delay else now


def is_accountable(policy: RetryPolicy, completion: Completion) -> bool:
    """Whether a retry after *completion* counts towards ``maxRetryCount``."""
    by_kind = policy.fancy and completion.failed and not _is_by_exit_code(policy, completion)
    return not (by_kind and Attribute.TRANSIENT in completion.attributes)


def scheduled(status: RetryStatus, retry: Retry) -> RetryStatus:
    """The record of a retry to come; one that comes at once needs none."""
    return replace(status, delay=retry.delay) if retry.delay else status


def executed(status: RetryStatus, retry: Retry) -> RetryStatus:
    """The counters once *retry* has been carried out."""
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
    """Why it runs again, or that it does not. The first row that matches decides."""
    limit, used = policy.max_retries, status.accountable
    if completion.code in NEVER_RETRIED:
        return GiveUp(f"{completion.phrase} is never retried")
    if completion.failed and (said := _by_failure(policy, completion)) is not None:
        return said
    if limit == RETRY_ALWAYS:
        return "maxRetryCount -2 runs it again whatever its end"
    if not completion.failed:
        return GiveUp("it succeeded")
    if limit == RETRY_ANY_FAILURE:
        return "maxRetryCount -1 retries every failure"
    if used < limit:
        return f"retry {used + 1} of {limit}"
    return GiveUp(_USED_UP.get(limit, f"all {limit} retries are used up"))


def _by_failure(policy: RetryPolicy, completion: Completion) -> str | GiveUp | None:
    """What the failure itself decides; None when that is for the number of retries."""
    if _is_by_exit_code(policy, completion):
        code = _exit_code(completion)
        if code in (policy.exit_codes or ()):
            return None
        told = "an end without an exit code" if code is None else f"exit code {code}"
        return GiveUp(f"{told} is none of retryableExitCodes")
    if not policy.fancy:
        return None
    if _is_conflict(completion):
        return "the failure is a passing conflict over resources; the retry is not counted (fancyRetryPolicy)"
    if Attribute.TRANSIENT in completion.attributes:
        return "the failure is transient; the retry is not counted (fancyRetryPolicy)"
    if Attribute.PERMANENT in completion.attributes:
        return GiveUp("the failure is permanent, another try would end the same way (fancyRetryPolicy)")
    return None


def _is_by_exit_code(policy: RetryPolicy, completion: Completion) -> bool:
    """Whether the exit code decides. Where there is none, the kind of the failure may, if it is asked to."""
    return policy.exit_codes is not None and not (policy.fancy and _exit_code(completion) is None)


def _exit_code(completion: Completion) -> int | None:
    """The exit code of the container that failed; None when the pod was ended without one, or never was."""
    codes = (
        [each.code for each in completion.pod.containers if each.code] if completion.pod is not None else []
    )
    if completion.code in codes or not codes:
        return completion.code if completion.code > 0 else None
    return codes[-1]
