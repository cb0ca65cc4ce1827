"""What every worker of the agent has at hand."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from launcher.core.planning.actions import ObjectEvent
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.container_runtime import Runtime
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.pods.pod_spec import ImageCommands
from launcher.node.volumes.volume_manager import VolumeManager
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import Object, Store


class LogRoom(Protocol):
    """Where logs are, and how they go."""

    def path(self, namespace: str, pod: str, uid: str, container: str, restart: int) -> Path:
        """The log of one run."""
        ...

    def begin(self, namespace: str, pod: str, uid: str) -> None:
        """Note that there is such a pod, whether it writes a log or not."""
        ...

    def tail(self, path: Path, lines: int, most: int) -> str:
        """The last lines of that log, in at most so many bytes."""
        ...

    def remove(self, namespace: str, pod: str) -> None:
        """No log of any pod of that name is left."""
        ...


@dataclass(frozen=True, slots=True)
class AgentDependencies:
    """The ports and places that a worker uses."""

    store: Store
    runtime: Runtime
    volumes: VolumeManager
    last_words: TerminationMessages
    hosts: HostsFileManager
    logs: LogRoom
    events: EventRecorder
    clock: Callable[[], float]
    #: Told of every pod that a write of ours was answered with.
    wrote: Callable[[Object], None]
    backoff: RestartBackoff = field(default_factory=RestartBackoff)
    #: The launcher's own search path.
    path: str = ""
    #: Images that have a directory of their own.
    images: Collection[str] = ()
    #: What containers of some images run that name no command.
    stand_ins: ImageCommands = field(default_factory=dict)
    #: Images that somebody has been told about.
    told: set[str] = field(default_factory=set)

    def tell(self, pod: Object, *notices: ObjectEvent) -> None:
        """Have these written as events of the pod."""
        self.events.record(pod, notices)
