"""
Where containers are started: the port that the agent speaks to.

A run is one start of one container; a restart is another run. A run has an id that its caller chooses, and all that
is known of a run stays known under that id, whatever becomes of the launcher, until it is forgotten. So a caller that
does not know whether an earlier call went through makes the same call again.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NewType, Protocol

from launcher.core.errors import LauncherError

#: ``<pod uid>.<container>.<restart>``: also the name of its directory.
RunId = NewType("RunId", str)


class StartFailed(LauncherError):
    """The container cannot be started as it is asked for; *reason* is one CamelCase word, as the kubelet's are."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mount:
    """Something of this machine that stands at *target* inside the container."""

    #: Without symbolic links: a link that appears in it later makes the start fail.
    source: Path
    #: Absolute; need not exist on this machine.
    target: str
    read_only: bool = False
    #: The pod names the source itself, so the launcher's own files may not be reached through it.
    host_path: bool = False


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What a run may use; None is as much as there is."""

    #: Bytes.
    memory: int | None = None
    #: Cores.
    cpu: float | None = None
    #: Processes and threads.
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a run's programs may do."""

    #: By their names without ``CAP_``; None for all that the launcher has itself.
    capabilities: Collection[str] | None = None
    no_new_privileges: bool = False
    #: System calls are filtered as container engines do by default.
    filtered: bool = False


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One run of a container, ready to be started: nothing is left to look up."""

    id: RunId
    image: str
    #: Not empty; the first is searched for in the PATH of *environment*, inside the container.
    argv: Sequence[str]
    environment: Mapping[str, str]
    #: Its log goes there; ``launcher.node.logs.container_logs`` knows the files by their names.
    log: Path
    #: Logs of the same group share a budget: those of one Framework, or of one pod that belongs to none.
    log_group: str = ""
    #: Inside the container.
    directory: str = "/"
    mounts: Sequence[Mount] = ()
    user: int | None = None
    group: int | None = None
    groups: Sequence[int] = ()
    read_only_root: bool = False
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    confinement: Confinement = field(default_factory=Confinement)
    #: The name of the machine as its programs see it; empty for the machine's own.
    hostname: str = ""
    #: How likely the kernel kills it when memory runs out, up to 1000; None is as likely as the launcher.
    oom_score: int | None = None


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a run ended."""

    #: 128 and the signal's number after a signal, as container engines tell it.
    exit_code: int
    #: Seconds since 1970.
    at: float
    out_of_memory: bool = False
    #: The end was not seen, and the exit code is made up (137): the keeper of the run was killed itself.
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """What is known of a run."""

    id: RunId
    #: Seconds since 1970.
    started: float
    #: None while it runs.
    ended: ExitStatus | None = None
    #: How many of its processes the kernel has killed because the run exceeded its memory limit.
    oom_kills: int = 0


class Runtime(Protocol):
    """Starts and ends runs. Every method may raise Unavailable: the same call may work later."""

    async def start(self, order: ContainerConfig) -> ContainerRun:
        """
        The run, started; or, when a run of that id is known already, that one as it is.

        Raises StartFailed; then nothing of it is left.
        """
        ...

    def runs(self) -> Mapping[RunId, ContainerRun]:
        """Every run that is known, as last heard of."""
        ...

    def exits(self) -> AsyncIterator[ContainerRun]:
        """
        Every run that ends from now on, or has a process killed for memory.

        One reader at a time; after an interruption, look at ``runs`` again.
        """
        ...

    async def signal(self, run: RunId, number: int) -> None:
        """Send the signal to every process of the run; none is left after SIGKILL. Nothing happens if it is over."""
        ...

    async def execute(self, run: RunId, argv: Sequence[str], *, within: float) -> tuple[int, bytes]:
        """
        Exit code and the first output of a command inside a running container, killed after *within* seconds.

        Exit code 124 is a command that took too long, 126 and 127 one that could not be started, also because the
        run is over.
        """
        ...

    async def remove(self, run: RunId) -> None:
        """Drop all that is known of a run that is over. Its log stays."""
        ...

    def unsupported_features(self, order: ContainerConfig) -> Sequence[str]:
        """What this machine goes without that the order asks for, each one sentence for people."""
        ...
