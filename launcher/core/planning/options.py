"""Planner options, which apply to all Frameworks."""

from dataclasses import dataclass, field

from launcher.core.failures.classifier import DEFAULT_CLASSIFIER, FailureClassifier
from launcher.core.planning.retry import RetryBackoff


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """Options of one launcher."""

    failures: FailureClassifier = field(default_factory=lambda: DEFAULT_CLASSIFIER)
    #: Delays between consecutive retries.
    backoff: RetryBackoff = RetryBackoff()
    #: Range in seconds of the random delay after a resource conflict.
    conflict_delay: tuple[int, int] = (60, 900)
    #: A created pod that is not observed for this many seconds fails its task attempt.
    unobserved_pod_timeout_seconds: int = 300
    #: Default of ttlSecondsAfterFinished: 30 days.
    default_ttl_seconds: int = 2_592_000
