"""What an admin may set for all Frameworks together, with the values that serve most."""

from dataclasses import dataclass, field

from launcher.core.failures.classifier import DEFAULT_RULES, FailureClassifier
from launcher.core.planning.retry import RetryBackoff


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """The house rules of one launcher."""

    #: How a failed pod's end is read.
    failures: FailureClassifier = field(default_factory=lambda: DEFAULT_RULES)
    #: Spacing between retries in a row.
    backoff: RetryBackoff = RetryBackoff()
    #: A Framework that lost a conflict over resources stays away for a random time between these, in seconds.
    conflict_delay: tuple[int, int] = (60, 900)
    #: A pod that was created but not seen for this many seconds is given up.
    unobserved_pod_timeout_seconds: int = 300
    #: A finished Framework without a ttl of its own is kept this many seconds: 30 days.
    default_ttl_seconds: int = 2_592_000
