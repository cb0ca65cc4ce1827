"""Failed calls of one Framework, and the time of their retry."""

from launcher.core.spec import PodName, RoleName
from launcher.store.backoff import ExponentialBackoff

#: Tolerance of timers, in seconds: more than the resolution of the event loop's clock.
TIMER_TOLERANCE_SECONDS = 0.001


class RetryState:
    """
    Failed calls of one Framework with a common back-off. All times are those of the event loop's clock.

    One back-off per Framework: the store that failed for one pod most likely fails for the next as well.
    """

    def __init__(self) -> None:
        #: Pods whose creation or deletion failed.
        self._pods: set[PodName] = set()
        #: Pods whose creation had an unknown outcome; they are read before the next planning pass.
        self._unconfirmed_creations: set[PodName] = set()
        #: Roles whose pods are rejected for now, by a quota for example; one creation is sent per pass.
        self._blocked_roles: set[RoleName] = set()
        #: The reconcile as a whole failed.
        self.reconcile_failed = False
        self._retry_at = 0.0
        #: The earliest time of the next reconcile, which limits how often a large status is written.
        self._not_before = 0.0
        self._backoff = ExponentialBackoff(initial=0.05, maximum=60.0)

    def retry_pod(self, name: PodName) -> None:
        """Retries the creation or deletion of the pod."""
        self._pods.add(name)

    def retry_reconcile(self) -> None:
        """Retries the reconcile as a whole."""
        self.reconcile_failed = True

    @property
    def unconfirmed_creations(self) -> list[PodName]:
        """The pods whose creation had an unknown outcome, by name."""
        return sorted(self._unconfirmed_creations)

    def creation_unconfirmed(self, name: PodName) -> None:
        """Records that the creation of the pod had an unknown outcome."""
        self._unconfirmed_creations.add(name)

    def creation_confirmed(self, name: PodName) -> None:
        """Records that the outcome of the creation is known."""
        self._unconfirmed_creations.discard(name)

    def block_role(self, role: RoleName) -> None:
        """Sends no more creations of the role in this pass."""
        self._blocked_roles.add(role)

    def is_blocked(self, role: RoleName) -> bool:
        return role in self._blocked_roles

    def unblock_roles(self) -> None:
        """Begins another pass, which sends one creation of each role."""
        self._blocked_roles.clear()

    def delay_until(self, time: float) -> None:
        """Retries nothing before *time*, as the store requested with Retry-After."""
        self._retry_at = max(self._retry_at, time)

    def limit_rate(self, not_before: float) -> None:
        """Allows the next reconcile at that time."""
        self._not_before = not_before

    def seconds_to_wait(self, now: float) -> float:
        """Returns the seconds before the next reconcile is allowed; 0 if it is allowed now."""
        until = max(self._not_before, self._retry_at if self.reconcile_failed else 0.0)
        return until - now if until - now > TIMER_TOLERANCE_SECONDS else 0.0

    def take_due_pods(self, now: float) -> set[PodName]:
        """Returns and clears the pods to retry, and clears a failed reconcile; empty during the back-off."""
        if self._retry_at - now > TIMER_TOLERANCE_SECONDS:
            return set()
        due, self._pods = self._pods, set()
        self.reconcile_failed = False
        return due

    @property
    def is_pending(self) -> bool:
        """Whether anything has to be retried."""
        return bool(self._pods) or self.reconcile_failed

    def reset_backoff(self) -> None:
        self._backoff.reset()

    def next_delay(self, now: float) -> float:
        """Returns the seconds before the next retry."""
        if self._retry_at - now <= TIMER_TOLERANCE_SECONDS:
            self._retry_at = now + self._backoff.next_delay()
        return self._retry_at - now
