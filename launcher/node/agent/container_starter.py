"""Starting containers of one pod: its volumes, what its environment is made of, and the order to the runtime."""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from launcher.core.errors import NotFound
from launcher.core.planning.actions import ObjectEvent
from launcher.node.agent.container_config import HostPaths, container_config
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.container_runtime import ContainerConfig, ContainerRun, StartFailed
from launcher.node.file_names import is_file_name
from launcher.node.logs.log_budget import log_group
from launcher.node.pods.container_state import ContainerExit, end_of
from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.pods.environment import EnvironmentSources as Values
from launcher.node.pods.environment import Found, Reference, references_of
from launcher.node.pods.hostname import host_name
from launcher.node.pods.pod_spec import Container, run_id, stood_in_for, uid_of
from launcher.node.pods.unsupported import unsupported_in
from launcher.node.volumes.volume_manager import PreparedVolumes, volume_references
from launcher.store.interface import Object, ResourceKind

#: The word of container engines for a program that could not be started.
START_ERROR = "StartError"
#: More images than that are not remembered; then people hear of one twice.
_MOST_IMAGES = 1000


class ContainerStarter:
    """Starts the containers of one pod, and tells how they ended."""

    def __init__(self, tools: AgentDependencies, address: str, allocatable: Mapping[str, str]) -> None:
        """*address* and *allocatable* are those of the pod's node."""
        self._tools, self.address, self._allocatable = tools, address, allocatable
        #: What the runtime cannot do has been told to this pod.
        #: What the pod has been told that this machine goes without.
        self._said: set[str] = set()

    async def prepare(self, pod: Object) -> PreparedVolumes:
        """The pod's volumes, ready. Raises VolumeFailed."""
        meta = pod["metadata"]
        self._tools.logs.begin(meta["namespace"], meta["name"], meta["uid"])
        found = await self._found(pod, volume_references(pod))
        sources = await self._tools.volumes.prepare(self._facts(pod), found)
        remarks = [f'volume "{name}": {source.remark}' for name, source in sources.items() if source.remark]
        self._tools.tell(pod, *[ObjectEvent("VolumeInSharedMemory", remark) for remark in remarks])
        return sources

    async def start(
        self, pod: Object, container: Container, restart: int, volumes: PreparedVolumes
    ) -> ContainerRun:
        """The run, started. Raises StartFailed, Unavailable."""
        _check_names(pod, container)
        container = stood_in_for(container, self._tools.stand_ins)
        found = await self._found(pod, references_of(container.spec))
        last_words = self._tools.last_words.file(run_id(uid_of(pod), container.name, restart))
        hosts = await self._tools.hosts.file_for(pod, self.address)
        hostname = host_name(pod, socket.gethostname())
        place = HostPaths(
            volumes,
            self._log(pod, container, restart),
            last_words,
            self._tools.path,
            hosts,
            hostname,
            self._tools.hosts.hostname_file(pod, hostname) if hostname else None,
        )
        order = container_config(container, restart, Values(self._facts(pod), found), place)
        meta = pod["metadata"]
        order = replace(order, log_group=log_group(meta["namespace"], meta["name"]))
        self._tell(pod, container, order)
        try:
            return await self._tools.runtime.start(order)
        except StartFailed as error:
            if container.spec.get("volumeMounts") or error.reason == START_ERROR:
                raise
            # Where containers get no files of their own, those that ask for none go without a file for last words.
            return await self._tools.runtime.start(replace(order, mounts=()))

    def ending(self, pod: Object, containers: int, container: Container, run: ContainerRun) -> ContainerExit:
        """How that run ended, with its last words; *containers* is how many the pod has."""
        assert run.ended is not None
        restart = int(run.id.rpartition(".")[2])
        log = self._log(pod, container, restart)
        message = self._tools.last_words.of(
            run.id,
            container.spec,
            run.ended.exit_code,
            lambda lines, most: self._tools.logs.tail(log, lines, most),
            containers,
        )
        return end_of(run, message)

    def run_of(self, pod: Object, container: Container, restart: int) -> ContainerRun | None:
        """That run, if the runtime knows it."""
        return self._tools.runtime.runs().get(run_id(uid_of(pod), container.name, restart))

    def _facts(self, pod: Object) -> DownwardApiContext:
        return DownwardApiContext(pod, self.address, self._allocatable)

    def _log(self, pod: Object, container: Container, restart: int) -> Path:
        meta = pod["metadata"]
        return self._tools.logs.path(meta["namespace"], meta["name"], meta["uid"], container.name, restart)

    async def _found(self, pod: Object, references: Iterable[Reference]) -> Found:
        """Those of the objects that are there."""
        found: dict[tuple[ResourceKind, str], Object] = {}
        for reference in references:
            try:
                found[reference.kind, reference.name] = await self._tools.store.get(
                    reference.kind, pod["metadata"]["namespace"], reference.name
                )
            except NotFound:
                continue  # whoever needs it says so
        return found

    def _tell(self, pod: Object, container: Container, order: ContainerConfig) -> None:
        """Say what this machine does otherwise than a cluster would."""
        image, tools = order.image, self._tools
        if image not in tools.told and image not in tools.images:
            if len(tools.told) < _MOST_IMAGES:
                tools.told.add(image)
            tools.tell(pod, _not_pulled(container, image))
        missing = [*unsupported_in(pod), *tools.runtime.unsupported_features(order)]
        new = [said for said in missing if said not in self._said]
        self._said.update(new)
        tools.tell(pod, *[ObjectEvent("NotSupported", said, warning=True) for said in new])


def _check_names(pod: Object, container: Container) -> None:
    """
    Raises StartFailed for a name that cannot be a part of a path.

    Admission rejects such names; this is for objects that were stored in another way.
    """
    meta = pod["metadata"]
    for what, name in (
        ("metadata.namespace", meta["namespace"]),
        ("metadata.name", meta["name"]),
        ("metadata.uid", meta["uid"]),
        ("container name", container.name),
    ):
        if not is_file_name(name):
            raise StartFailed("CreateContainerConfigError", f"{what} {name!r} is invalid: rename it")


def _not_pulled(container: Container, image: str) -> ObjectEvent:
    return ObjectEvent(
        "ImageNotPulled",
        f'No image is pulled here: container "{container.name}" runs on this machine\'s own files. Start the launcher '
        f"with --image {image}=DIR to lay the files of a directory over them.",
    )
