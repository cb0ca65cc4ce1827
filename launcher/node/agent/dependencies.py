"""The dependencies of the node agent and its pod workers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from launcher.core.events import ObjectEvent
from launcher.core.owner_references import controller_uid
from launcher.node.agent.device_manager import DeviceManager
from launcher.node.agent.hosts_files import HostsFileManager
from launcher.node.agent.image_manager import ImageManager
from launcher.node.agent.pod_sandboxes import PodSandboxManager
from launcher.node.agent.termination_messages import TerminationMessages
from launcher.node.container_runtime import RuntimeService
from launcher.node.logs.container_logs import ContainerLogs
from launcher.node.network.pod_network import PodNetwork, SharedPodNetwork
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.node.pods.pod_spec import Entrypoints, ImageCommands, uid_of
from launcher.node.volumes.volume_manager import VolumeManager
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import Object, Store

#: The number of reports that are remembered; an event may be recorded again after more.
_MAX_REPORTED = 1000


@dataclass(frozen=True, slots=True)
class AgentDependencies:
    """The interfaces and managers that the agent and its workers use."""

    store: Store
    runtime: RuntimeService
    volumes: VolumeManager
    termination_messages: TerminationMessages
    hosts: HostsFileManager
    logs: ContainerLogs
    devices: DeviceManager
    events: EventRecorder
    clock: Callable[[], float]
    network: PodNetwork = field(default_factory=SharedPodNetwork)
    #: None if the runtime uses this machine's files instead of images.
    image_manager: ImageManager | None = None
    backoff: RestartBackoff = field(default_factory=RestartBackoff)
    #: The search path of containers.
    path: str = ""
    #: The working directory of containers that set none, and that of images with files of their own.
    workdir: str = "/"
    image_workdirs: Mapping[str, str] = field(default_factory=dict)
    #: Images that have a directory, with their entrypoints.
    images: Entrypoints = field(default_factory=dict)
    #: Commands of containers that name none, by image.
    image_commands: ImageCommands = field(default_factory=dict)
    #: Frameworks, or pods without one, by uid, and the subjects of ``record_once``; the oldest first.
    reported: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def sandboxes(self) -> PodSandboxManager:
        return PodSandboxManager(self.network, self.runtime)

    def record(self, pod: Object, *events: ObjectEvent) -> None:
        """Records events of the pod."""
        self.events.record(pod, events)

    def record_once(self, pod: Object, subject: str, event: ObjectEvent) -> None:
        """Records an event about *subject* once for each Framework, or each pod without one."""
        report = (controller_uid(pod) or uid_of(pod), subject)
        if report in self.reported:
            return
        self.reported[report] = None
        if len(self.reported) > _MAX_REPORTED:
            del self.reported[next(iter(self.reported))]
        self.record(pod, event)
