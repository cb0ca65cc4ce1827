"""What the user asked for, complete and checked: nothing here is open or optional that the engine must decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

FrameworkName = NewType("FrameworkName", str)
RoleName = NewType("RoleName", str)
PodName = NewType("PodName", str)


class ExecutionType(StrEnum):
    """What the user wants of the Framework as a whole."""

    CREATE = "Create"
    START = "Start"
    STOP = "Stop"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when an attempt is over and no other follows."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class StartCondition(StrEnum):
    """What a task of another role must have reached before this role starts."""

    RUNNING = "Running"
    READY = "Ready"
    SUCCEEDED = "Succeeded"


#: ``maxRetryCount`` values with a meaning of their own.
RETRY_ALWAYS = -2
RETRY_ANY_FAILURE = -1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a finished attempt is followed by another."""

    fancy: bool = False
    max_retries: int = 0
    #: Only a failure with one of these exit codes is retried; None: the exit code does not matter. Of a pod that has
    #: none, such as one that was evicted, the rest decides.
    exit_codes: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CompletionPolicy:
    """When the tasks of one role end the whole attempt; -1 is never."""

    min_failed: int = 1
    min_succeeded: int = -1
    #: Success of every one of these tasks ends the attempt with success; empty: no such rule.
    succeeded_indexes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StartAfter:
    """This role's pods wait until *at_least* tasks (None: all) of *role* have reached *condition*."""

    role: RoleName
    condition: StartCondition = StartCondition.RUNNING
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """All or nothing: *min_tasks* (None: all) are placed together, or none is."""

    timeout_seconds: int | None = None
    min_tasks: int | None = None
    #: Where the cluster has queues: in which one it waits.
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """An init container that waits for every peer's address and writes them under *mount_path*."""

    mount_path: str = "/configdir"
    ports: Mapping[RoleName, int | str] = field(default_factory=dict)
    #: Wait also until the tasks of all roles that are created earlier listen on their ports.
    wait_for_ports: bool = False
    #: Who waits for longer fails, and says for whom; None: never.
    timeout_seconds: int | None = None
    #: Of the init container; empty: that of the pod's first container.
    image: str = ""


@dataclass(frozen=True, slots=True)
class TaskRole:
    """A group of identical tasks."""

    name: RoleName
    tasks: int
    #: The PodTemplateSpec as the user wrote it: ``metadata`` and ``spec``, unknown fields kept.
    pod: Mapping[str, Any]
    completion: CompletionPolicy = CompletionPolicy()
    retry: RetryPolicy = RetryPolicy()
    start_after: tuple[StartAfter, ...] = ()
    #: True: never counts towards completion (tensorboard and the like).
    background: bool = False
    #: A pod that takes longer to go is removed by force; None: never.
    graceful_deletion_seconds: int | None = None
    #: A pod that stays Pending for longer fails its attempt; None: never.
    pending_deadline_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class FrameworkSpec:
    """The whole wish."""

    roles: tuple[TaskRole, ...]
    execution: ExecutionType = ExecutionType.START
    retry: RetryPolicy = RetryPolicy()
    description: str = ""
    #: Order of creation, every role once; empty: all at once.
    role_sequence: tuple[RoleName, ...] = ()
    gang: Gang | None = None
    discovery: Discovery | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds: int | None = None
    clean_pods: CleanPodPolicy = CleanPodPolicy.RUNNING
