"""The typed spec of a Framework, validated and with all defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

FrameworkName = NewType("FrameworkName", str)
RoleName = NewType("RoleName", str)
PodName = NewType("PodName", str)


class ExecutionType(StrEnum):
    """Whether the Framework waits, runs or is stopped."""

    CREATE = "Create"
    START = "Start"
    STOP = "Stop"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the last attempt completes."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class StartCondition(StrEnum):
    """The state that tasks of another role must reach before this role starts."""

    RUNNING = "Running"
    READY = "Ready"
    SUCCEEDED = "Succeeded"


#: Special values of ``maxRetryCount``.
RETRY_ALWAYS = -2
RETRY_ANY_FAILURE = -1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a completed attempt is retried."""

    fancy: bool = False
    max_retries: int = 0
    #: Only failures with one of these exit codes are retried; None: any exit code. They do not apply to a pod without
    #: an exit code, such as an evicted one.
    exit_codes: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CompletionPolicy:
    """When the tasks of one role complete the Framework attempt; -1 is never."""

    min_failed: int = 1
    min_succeeded: int = -1
    #: The attempt succeeds when all of these tasks have succeeded; empty: no such rule.
    succeeded_indexes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StartAfter:
    """Pods of this role wait until *at_least* tasks (None: all) of *role* have reached *condition*."""

    role: RoleName
    condition: StartCondition = StartCondition.RUNNING
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """Gang scheduling: at least *min_tasks* (None: all) are scheduled together, or none."""

    timeout_seconds: int | None = None
    min_tasks: int | None = None
    #: The queue of the gang scheduler, if it has queues.
    queue: str = ""


#: In ``discovery.ports``: each task of the role chooses a free port of its node.
AUTO_PORT = "auto"


@dataclass(frozen=True, slots=True)
class Discovery:
    """An init container that waits for every peer's address and writes them under *mount_path*."""

    mount_path: str = "/configdir"
    ports: Mapping[RoleName, int | str] = field(default_factory=dict)
    #: Wait also until the tasks of all roles that are created earlier listen on their ports.
    wait_for_ports: bool = False
    #: A task that waits for longer fails and reports the missing peers; None: no limit.
    timeout_seconds: int | None = None
    #: The image of the init container; empty: that of the pod's first container.
    image: str = ""


@dataclass(frozen=True, slots=True)
class TaskRole:
    """A group of identical tasks."""

    name: RoleName
    tasks: int
    #: The PodTemplateSpec as the user wrote it, with unknown fields.
    pod: Mapping[str, Any]
    completion: CompletionPolicy = CompletionPolicy()
    retry: RetryPolicy = RetryPolicy()
    start_after: tuple[StartAfter, ...] = ()
    #: Does not count towards completion, such as TensorBoard.
    background: bool = False
    #: A pod whose deletion takes longer is force deleted; None: never.
    graceful_deletion_seconds: int | None = None
    #: A pod that stays Pending for longer fails its attempt; None: never.
    pending_deadline_seconds: int | None = None
    #: A task without output and heartbeat for longer fails its attempt; None: never.
    progress_deadline_seconds: int | None = None
    #: A pod that can never start fails its attempt instead of waiting.
    fail_fast: bool = True
    #: Failure rules as the user wrote them, in FrameworkController's format; they precede those of the cluster.
    pod_failure_spec: tuple[Mapping[str, Any], ...] = ()


#: Default of ``attemptHistoryLimit``.
DEFAULT_ATTEMPT_HISTORY = 10


@dataclass(frozen=True, slots=True)
class FrameworkSpec:
    """The spec of a Framework."""

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
    #: Maximum number of completed attempts that are kept as FrameworkAttempt objects.
    attempt_history_limit: int = DEFAULT_ATTEMPT_HISTORY
