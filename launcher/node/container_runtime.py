"""
The container runtime interface that the node agent uses, after the CRI's RuntimeService and ImageService.

An operation of the CRI has its name here. Two operations have no counterpart there: ``signal`` (the CRI's StopContainer
contains the grace period, which the agent measures itself) and ``unsupported_features``.

A run is one start of one container; a restart is another run. The caller chooses the run's id, and the runtime retains
a run under its id until it is removed, even if the launcher restarts. So a caller that does not know whether an earlier
call succeeded repeats it.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NewType, Protocol, Self

from launcher.core.errors import LauncherError
from launcher.core.pods.exec_session import ExecSession, PodAttachOptions, PodExecOptions

#: ``<pod uid>.<container>.<restart>``: also the name of its directory.
RunId = NewType("RunId", str)


class StartFailed(LauncherError):
    """
    The container cannot be started with its configuration; *reason* is one of the kubelet's CamelCase reasons.

    The same start may be tried again after *retry_seconds*.
    """

    def __init__(self, reason: str, message: str, retry_seconds: float = 10.0) -> None:
        super().__init__(message)
        self.reason, self.retry_seconds = reason, retry_seconds


class ImageFailed(StartFailed):
    """The image of the container cannot be used, or not yet."""


class ImagePullFailed(LauncherError):
    """The image cannot be pulled; the message is that of the engine."""


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
class PodSandboxConfig:
    """The sandbox of an isolated pod."""

    pod_uid: str
    hostname: str


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One run of a container, ready to be started: all references are resolved."""

    id: RunId
    #: The id of an image of the engine, or the name of one that is a directory of this machine.
    image: str
    #: The first is searched for in the PATH of *environment*, inside the container. Empty for that of the image.
    command: Sequence[str]
    environment: Mapping[str, str]
    #: The log file; ``launcher.node.logs.container_logs`` defines its path.
    log: Path
    #: The image in the status of the pod, with its digest; empty for one that is a directory of this machine.
    image_ref: str = ""
    #: Logs of the same group share a budget: those of one Framework, or of one pod without a Framework.
    log_group: str = ""
    #: Follow the command; empty for those of the image if it has no command either.
    args: Sequence[str] = ()
    #: The working directory inside the container; empty for that of the image.
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
    #: The indexes of the GPUs that were allocated to the container.
    gpus: Sequence[str] = ()
    #: Its input is open for clients that attach; otherwise it is empty.
    stdin: bool = False
    #: Its input ends when the first client that is attached to it ends.
    stdin_once: bool = False
    #: Its streams are a terminal.
    tty: bool = False

    @property
    def argv(self) -> Sequence[str]:
        """The command and its arguments."""
        return (*self.command, *self.args)


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
    #: The runtime and the id of the container in it, as in the status of the pod.
    container_id: str = ""
    #: As in the config.
    image_ref: str = ""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What a run has used."""

    #: CPU time since its start.
    cpu_seconds: float
    memory_bytes: int


class RuntimeService(Protocol):
    """Starts and ends runs of containers. Every method may raise Unavailable: the same call may succeed later."""

    def version(self) -> str:
        """The name and the version of the runtime, such as ``docker://20.10.24``."""
        ...

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> int | None:
        """
        Start a process in the network namespace for the pod's containers, unless it runs, and return its pid.

        None if the runtime needs no process: its containers enter the namespace that their config names.
        """
        ...

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        """Ends the process, if there is one, after the pod's containers: StopPodSandbox and RemovePodSandbox."""
        ...

    async def start_container(self, config: ContainerConfig) -> ContainerRun:
        """
        Create and start the run, unless it exists, and return it: CreateContainer and StartContainer of the CRI.

        Raises StartFailed, in which case no run exists.
        """
        ...

    def list_containers(self) -> Mapping[RunId, ContainerRun]:
        """All runs, in their last observed state."""
        ...

    def get_container_events(self) -> AsyncIterator[ContainerRun]:
        """
        Yield every run that ends, or of which a process is killed for memory.

        One reader at a time; after an interruption, read ``list_containers`` again.
        """
        ...

    async def signal(self, run: RunId, number: int) -> None:
        """
        Send the signal to the run; SIGKILL ends all of its processes. Does nothing if the run has ended.

        Other signals are received by its first process or, if it has no process namespace, by all of them.
        """
        ...

    async def exec_sync(
        self, run: RunId, argv: Sequence[str], *, timeout_seconds: float
    ) -> tuple[int, bytes]:
        """
        Execute a command in a running container. Returns its exit code and the beginning of its output.

        It is killed after *timeout_seconds*: exit code 124. 126 and 127 are commands that could not be started, also
        because the run has ended.
        """
        ...

    async def exec(self, run: RunId, options: PodExecOptions) -> ExecSession:
        """Starts a command in a running container, and returns its session, which the caller closes."""
        ...

    async def attach(self, run: RunId, options: PodAttachOptions) -> ExecSession:
        """
        Connect to the streams of a running container, its output from now on. Returns the session.

        The session ends with the container and, unless ``options.ends_input``, with the client's input. It does not
        delay the container for longer than some seconds if its output is not read.
        """
        ...

    async def list_container_stats(self) -> Mapping[RunId, ResourceUsage]:
        """What each running run has used."""
        ...

    async def remove_container(self, run: RunId) -> None:
        """Removes a run that has ended; its log stays. Raises Conflict while it is running."""
        ...

    def unsupported_features(self, config: ContainerConfig) -> Sequence[str]:
        """Features of *config* that this machine does not support, one sentence each."""
        ...


@dataclass(frozen=True, slots=True)
class ImageStatus:
    """An image that exists on this machine."""

    id: str
    #: In the status of pods: with its digest in a registry, or else its id.
    ref: str
    #: The user of its containers: empty, a name or a number, each also with a group after a colon.
    user: str = ""
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """The credentials for one image registry: a user with a password, or an identity token."""

    username: str = ""
    password: str = ""
    identity_token: str = ""


#: Called with the bytes of a pull that have been received, and those of all layers that are known.
PullProgress = Callable[[int, int], None]


class ImageService(Protocol):
    """The images of the container runtime. Every method may raise Unavailable: the same call may succeed later."""

    async def image_status(self, image: str) -> ImageStatus | None:
        """The image of that name; None if this machine does not have it."""
        ...

    async def pull_image(
        self, image: str, credentials: RegistryCredentials | None, on_progress: PullProgress
    ) -> None:
        """Pulls the image. Raises ImagePullFailed."""
        ...
