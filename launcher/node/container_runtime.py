"""
The container runtime interface that the node agent uses.

A run is one start of one container; a restart is another run. The caller chooses the run's id, and the runtime retains
a run under its id until it is removed, even if the launcher restarts. So a caller that does not know whether an earlier
call succeeded repeats it.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NewType, Protocol, Self

from launcher.core.errors import LauncherError
from launcher.core.pods.exec_session import ExecSession, PodExecOptions

#: ``<pod uid>.<container>.<restart>``: also the name of its directory.
RunId = NewType("RunId", str)


class StartFailed(LauncherError):
    """The container cannot be started with its configuration; *reason* is one of the kubelet's CamelCase reasons."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of this machine that is mounted at *target* inside the container."""

    #: Without symbolic links: a link that appears in it later makes the start fail.
    source: Path
    #: Absolute; need not exist on this machine.
    target: str
    read_only: bool = False
    #: The pod names the source itself, so the launcher's own files must not be reachable through it.
    host_path: bool = False


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The resource limits of a run; None is unlimited."""

    #: Bytes.
    memory: int | None = None
    #: Cores.
    cpu: float | None = None
    #: Processes and threads.
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class Confinement:
    """The privileges of a run's programs."""

    #: Capabilities without ``CAP_``; None for all that the launcher has itself.
    capabilities: Collection[str] | None = None
    no_new_privileges: bool = False
    #: System calls are filtered as container engines do by default.
    filtered: bool = False


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One run of a container, ready to be started: all references are resolved."""

    id: RunId
    image: str
    #: Not empty; the first is searched for in the PATH of *environment*, inside the container.
    argv: Sequence[str]
    environment: Mapping[str, str]
    #: The log file; ``launcher.node.logs.container_logs`` defines its path.
    log: Path
    #: Logs of the same group share a budget: those of one Framework, or of one pod without a Framework.
    log_group: str = ""
    #: The working directory inside the container.
    directory: str = "/"
    mounts: Sequence[Mount] = ()
    user: int | None = None
    group: int | None = None
    groups: Sequence[int] = ()
    read_only_root: bool = False
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    confinement: Confinement = field(default_factory=Confinement)
    #: The host name inside the container; empty for that of the machine.
    hostname: str = ""
    #: The network namespace of its pod; None for that of the machine.
    network: Path | None = None
    #: The kernel's oom_score_adj, up to 1000 (killed first); None for that of the launcher.
    oom_score: int | None = None


#: Reasons of an exit, those of container engines and of the kubelet.
COMPLETED, ERROR, OOM_KILLED = "Completed", "Error", "OOMKilled"
#: The program could not be started.
START_ERROR = "StartError"
#: The container could not be created, for instance because it has no command or working directory.
CREATE_ERROR = "CreateContainerError"
STATUS_UNKNOWN = "ContainerStatusUnknown"
#: The exit code of a killed container, which is reported also for an exit that was not observed.
_KILLED = 137


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a run of a container ended: ``terminated`` in the pod's status."""

    #: 128 + n after signal n, as container engines report it.
    exit_code: int
    reason: str
    #: Seconds since 1970.
    finished_at: float
    #: The termination message.
    message: str = ""

    @classmethod
    def of_process(cls, exit_code: int, finished_at: float, *, out_of_memory: bool = False) -> Self:
        """The exit of a process, with the reason that the kubelet reports for it."""
        reason = OOM_KILLED if out_of_memory else ERROR if exit_code else COMPLETED
        return cls(exit_code, reason, finished_at)

    @classmethod
    def unknown(cls, finished_at: float) -> Self:
        """An exit that was not observed, for instance because the shim was killed itself."""
        return cls(_KILLED, STATUS_UNKNOWN, finished_at, "The exit of the container was not observed")

    @property
    def is_unknown(self) -> bool:
        return self.reason == STATUS_UNKNOWN


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """The state of a run."""

    id: RunId
    #: Seconds since 1970.
    started: float
    #: None while it runs.
    ended: ExitStatus | None = None
    #: The number of its processes that the kernel killed because the run exceeded its memory limit.
    oom_kills: int = 0


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What a run has used."""

    #: CPU time since its start.
    cpu_seconds: float
    memory_bytes: int


class Runtime(Protocol):
    """Starts and ends runs. Every method may raise Unavailable: the same call may succeed later."""

    async def start(self, config: ContainerConfig) -> ContainerRun:
        """
        Start the run, unless it exists, and return it.

        Raises StartFailed, in which case no run exists.
        """
        ...

    def runs(self) -> Mapping[RunId, ContainerRun]:
        """All runs, in their last observed state."""
        ...

    def exits(self) -> AsyncIterator[ContainerRun]:
        """
        Yield every run that ends, or of which a process is killed for memory.

        One reader at a time; after an interruption, read ``runs`` again.
        """
        ...

    async def signal(self, run: RunId, number: int) -> None:
        """Sends the signal to every process of the run; SIGKILL ends them all. Does nothing if the run has ended."""
        ...

    async def execute(self, run: RunId, argv: Sequence[str], *, timeout_seconds: float) -> tuple[int, bytes]:
        """
        Execute a command in a running container. Returns its exit code and the beginning of its output.

        It is killed after *timeout_seconds*: exit code 124. 126 and 127 are commands that could not be started, also
        because the run has ended.
        """
        ...

    async def open_exec(self, run: RunId, options: PodExecOptions) -> ExecSession:
        """Starts a command in a running container, and returns its session, which the caller closes."""
        ...

    async def usage(self) -> Mapping[RunId, ResourceUsage]:
        """What each running run has used."""
        ...

    async def remove(self, run: RunId) -> None:
        """Removes a run that has ended; its log stays. Raises Conflict while it is running."""
        ...

    def unsupported_features(self, config: ContainerConfig) -> Sequence[str]:
        """Features of *config* that this machine does not support, one sentence each."""
        ...
