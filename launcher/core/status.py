"""The status of Frameworks and tasks: states, legal transitions, attempts and retries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from launcher.core.completion_codes import Completion
from launcher.core.spec import RoleName
from launcher.core.timestamps import Time


class State(StrEnum):
    """The state of a Framework or of a task."""

    CREATION_PENDING = "AttemptCreationPending"
    CREATION_REQUESTED = "AttemptCreationRequested"
    PREPARING = "AttemptPreparing"
    RUNNING = "AttemptRunning"
    DELETION_PENDING = "AttemptDeletionPending"
    DELETION_REQUESTED = "AttemptDeletionRequested"
    DELETING = "AttemptDeleting"
    ATTEMPT_COMPLETED = "AttemptCompleted"
    COMPLETED = "Completed"


_S = State

#: All legal transitions of a task. The diagram in docs/retries-and-completion.md is drawn from this table.
TASK_STEPS: Mapping[State, frozenset[State]] = {
    # The pod was created, or it cannot be created, or it is no longer needed.
    _S.CREATION_PENDING: frozenset({_S.CREATION_REQUESTED, _S.ATTEMPT_COMPLETED}),
    _S.CREATION_REQUESTED: frozenset({_S.PREPARING, _S.ATTEMPT_COMPLETED}),
    # A finished pod that is not retried completes the attempt at once; it is kept for its logs.
    _S.PREPARING: frozenset({_S.RUNNING, _S.DELETION_PENDING, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.RUNNING: frozenset({_S.PREPARING, _S.DELETION_PENDING, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETION_PENDING: frozenset({_S.DELETION_REQUESTED, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETION_REQUESTED: frozenset({_S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETING: frozenset({_S.ATTEMPT_COMPLETED}),
    _S.ATTEMPT_COMPLETED: frozenset({_S.CREATION_PENDING, _S.COMPLETED}),  # a retry, or the end
    _S.COMPLETED: frozenset(),
}

#: All legal transitions of a Framework. It requests no object of its own, so two of the nine states are not used.
FRAMEWORK_STEPS: Mapping[State, frozenset[State]] = {
    _S.CREATION_PENDING: frozenset({_S.PREPARING, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.PREPARING: frozenset({_S.RUNNING, _S.DELETION_PENDING, _S.DELETING}),
    _S.RUNNING: frozenset({_S.DELETION_PENDING, _S.DELETING}),
    _S.DELETION_PENDING: frozenset({_S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETING: frozenset({_S.ATTEMPT_COMPLETED}),
    _S.ATTEMPT_COMPLETED: frozenset({_S.CREATION_PENDING, _S.COMPLETED}),
    _S.COMPLETED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class RetryStatus:
    """The retries of a Framework or task so far."""

    total: int = 0
    accountable: int = 0
    #: Seconds between the end of an attempt and the next one; set only while a retry is scheduled.
    delay: int | None = None
    #: Consecutive retries of short attempts, which determine the back-off.
    consecutive_quick_retries: int = 0


NO_RETRIES = RetryStatus()


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """The current attempt of a task, and its pod."""

    start_time: Time
    run_time: Time | None = None
    completion_time: Time | None = None
    pod_uid: str | None = None
    node: str | None = None
    ip: str | None = None
    host_ip: str | None = None
    completion: Completion | None = None
    #: The pod passes its readiness probe; known only while the pod is observed, so never stored.
    ready: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class CompletedAttempt:
    """An earlier attempt of a task: it completed and was retried."""

    id: int
    start_time: Time
    completion_time: Time
    #: The code and the phrase of its completion.
    code: int
    phrase: str
    #: The cause as a clause: ``container main exited with code 7``.
    reason: str
    #: Whether the retry counts towards maxRetryCount, and why it was permitted.
    counted: bool
    retry_reason: str
    #: The number of counted retries that remained; None: unlimited.
    retries_left: int | None = None
    run_time: Time | None = None
    pod_uid: str | None = None
    node: str | None = None
    #: Exit code of the container that failed; None if there was none.
    exit_code: int | None = None
    signal: int = 0
    #: The failure rule that matched; empty if none did.
    rule: str = ""
    #: Why the retry does not count; empty if it does.
    uncounted_reason: str = ""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of one task."""

    index: int
    start_time: Time
    transition_time: Time
    attempt: TaskAttempt
    state: State = State.CREATION_PENDING
    run_time: Time | None = None
    completion_time: Time | None = None
    retry: RetryStatus = NO_RETRIES
    #: Removed by a scale-down; a later scale-up creates a new task.
    deletion_pending: bool = False
    #: Distinguishes tasks of one index: 0 if created with the attempt, n if created by the n-th rescale.
    incarnation: int = 0
    #: The reason for the state, for users.
    message: str = ""
    #: The latest attempts before the current one, oldest first; older ones are only counted, by ``retry.total``.
    history: tuple[CompletedAttempt, ...] = ()

    @property
    def succeeded(self) -> bool:
        return self.attempt.completion is not None and not self.attempt.completion.failed


def was_scheduled(task: TaskStatus) -> bool:
    """Whether the current attempt's pod was scheduled. A pod that has run was, even if its node was never observed."""
    attempt = task.attempt
    return attempt.node is not None or attempt.run_time is not None or task.succeeded


def new_task(index: int, now: Time, incarnation: int = 0) -> TaskStatus:
    """The status of a new task."""
    return TaskStatus(
        index=index, start_time=now, transition_time=now, attempt=TaskAttempt(now), incarnation=incarnation
    )


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """The tasks of one role, ordered by index."""

    name: RoleName
    tasks: tuple[TaskStatus, ...]
    #: Copied from the spec, so that it is known after the role was removed from the spec.
    graceful_deletion_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """The task that completed the Framework attempt, and the rule that applied."""

    message: str
    role: RoleName | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class FrameworkAttempt:
    """The current attempt of the Framework."""

    id: int
    start_time: Time
    run_time: Time | None = None
    completion_time: Time | None = None
    completion: Completion | None = None
    trigger: Trigger | None = None
    #: Number of rescales that added tasks in this attempt.
    rescales: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as Kubernetes defines it."""

    type: str
    status: bool
    since: Time
    reason: str
    message: str = ""
    #: The observed generation, if it differs from that of the status.
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class FrameworkStatus:
    """The status of a Framework."""

    start_time: Time
    transition_time: Time
    attempt: FrameworkAttempt
    roles: tuple[RoleStatus, ...]
    state: State = State.CREATION_PENDING
    run_time: Time | None = None
    completion_time: Time | None = None
    retry: RetryStatus = NO_RETRIES
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    message: str = ""

    def role(self, name: str) -> RoleStatus | None:
        return next((role for role in self.roles if role.name == name), None)

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)
