"""What has happened so far: the states of Frameworks and tasks, the legal steps between them, and the record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from launcher.core.completion_codes import Completion
from launcher.core.spec import RoleName
from launcher.core.timestamps import Time


class State(StrEnum):
    """Where a Framework's attempt, or a task's, stands."""

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

#: Every legal step of a task, and no other. The diagram in the README is drawn from this table.
TASK_STEPS: Mapping[State, frozenset[State]] = {
    # The pod is in sight, or it can never be had, or it is no longer wanted.
    _S.CREATION_PENDING: frozenset({_S.CREATION_REQUESTED, _S.ATTEMPT_COMPLETED}),
    _S.CREATION_REQUESTED: frozenset({_S.PREPARING, _S.ATTEMPT_COMPLETED}),
    # A pod that ended and is not tried again counts at once; it stays for its logs.
    _S.PREPARING: frozenset({_S.RUNNING, _S.DELETION_PENDING, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.RUNNING: frozenset({_S.PREPARING, _S.DELETION_PENDING, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETION_PENDING: frozenset({_S.DELETION_REQUESTED, _S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETION_REQUESTED: frozenset({_S.DELETING, _S.ATTEMPT_COMPLETED}),
    _S.DELETING: frozenset({_S.ATTEMPT_COMPLETED}),
    _S.ATTEMPT_COMPLETED: frozenset({_S.CREATION_PENDING, _S.COMPLETED}),  # a retry, or the end
    _S.COMPLETED: frozenset(),
}

#: Every legal step of a Framework. It has no object of its own to request, so two of the nine names are not used.
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
    """How often it was tried again."""

    total: int = 0
    accountable: int = 0
    #: Seconds between the end of an attempt and the next one; set only while a retry is scheduled.
    delay: int | None = None
    #: Retries in a row that each came soon after a start: how far the back-off has grown.
    consecutive_quick_retries: int = 0


NO_RETRIES = RetryStatus()


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """The current try of a task, and the pod that serves it."""

    start_time: Time
    run_time: Time | None = None
    completion_time: Time | None = None
    pod_uid: str | None = None
    node: str | None = None
    ip: str | None = None
    host_ip: str | None = None
    completion: Completion | None = None
    #: The pod answers its readiness probe; known only while it is in sight, so never stored.
    ready: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task, from its creation on."""

    index: int
    start_time: Time
    transition_time: Time
    attempt: TaskAttempt
    state: State = State.CREATION_PENDING
    run_time: Time | None = None
    completion_time: Time | None = None
    retry: RetryStatus = NO_RETRIES
    #: Removed by a scale-down; it never comes back, a later scale-up makes a new task.
    deletion_pending: bool = False
    #: Tells apart tasks of one index: 0 from the attempt's start, n from the n-th rescale.
    incarnation: int = 0
    #: Why it is where it is, for people.
    message: str = ""

    @property
    def succeeded(self) -> bool:
        return self.attempt.completion is not None and not self.attempt.completion.failed


def was_scheduled(task: TaskStatus) -> bool:
    """Whether the task's pod was given a node in its current try. Who has run was, whoever told."""
    attempt = task.attempt
    return attempt.node is not None or attempt.run_time is not None or task.succeeded


def new_task(index: int, now: Time, incarnation: int = 0) -> TaskStatus:
    """A task that nothing has happened to yet."""
    return TaskStatus(
        index=index, start_time=now, transition_time=now, attempt=TaskAttempt(now), incarnation=incarnation
    )


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """The tasks of one role, by index."""

    name: RoleName
    tasks: tuple[TaskStatus, ...]
    #: Kept from the spec, so that it outlives the role's removal from there.
    graceful_deletion_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """The task that ended the attempt, and by which rule."""

    message: str
    role: RoleName | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class FrameworkAttempt:
    """The current try of the whole Framework."""

    id: int
    start_time: Time
    run_time: Time | None = None
    completion_time: Time | None = None
    completion: Completion | None = None
    trigger: Trigger | None = None
    #: How many rescales have added tasks in this attempt.
    rescales: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One standard condition, as ``kubectl wait --for=condition=…`` reads it."""

    type: str
    status: bool
    since: Time
    reason: str
    message: str = ""
    #: The generation that it is about, where that is not the one of the whole status.
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class FrameworkStatus:
    """Everything that has happened to a Framework and still matters."""

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
