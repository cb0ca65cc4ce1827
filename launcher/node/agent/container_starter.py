"""Starts the containers of one pod: resolves volumes, environment and the config for the runtime."""

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from launcher.core.errors import NotFound
from launcher.core.events import ObjectEvent
from launcher.node.agent.container_config import HostFiles, container_config
from launcher.node.agent.dependencies import AgentDependencies
from launcher.node.container_runtime import (
    CREATE_ERROR,
    START_ERROR,
    ContainerConfig,
    ContainerRun,
    ExitStatus,
    StartFailed,
)
from launcher.node.file_names import is_file_name
from launcher.node.logs.log_budget import log_group
from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.pods.environment import (
    EnvironmentSources,
    LocalObjectReference,
    ReferencedObjects,
    object_references,
    without_command,
)
from launcher.node.pods.gpus import GPU_RESOURCE, GpuAllocation, ignored_gpu_variables
from launcher.node.pods.hostname import host_name
from launcher.node.pods.pod_spec import Container, containers_of, run_id, uid_of, with_image_command
from launcher.node.pods.unsupported import unsupported_fields
from launcher.node.shim.confinement import can_filter
from launcher.node.volumes.volume_manager import PreparedVolumes, volume_references
from launcher.store.interface import Object, ResourceKind


class ContainerStarter:
    """Starts the containers of one pod, and returns how they ended."""

    def __init__(
        self,
        dependencies: AgentDependencies,
        host_address: str,
        pod_address: str,
        allocatable: Mapping[str, str],
    ) -> None:
        """*host_address* and *allocatable* are those of the pod's node."""
        self._dependencies, self._allocatable = dependencies, allocatable
        self.host_address, self.pod_address = host_address, pod_address
        #: Unsupported features of which the pod has an event.
        self._reported: set[str] = set()
        self._released_gpus: GpuAllocation = {}

    async def prepare(self, pod: Object) -> PreparedVolumes:
        """Prepares the pod's volumes. Raises VolumeFailed."""
        objects = await self._get_objects(pod, volume_references(pod))
        volumes = await self._dependencies.volumes.prepare(self._downward_api(pod), objects)
        warnings = [
            f'volume "{name}": {volume.warning}' for name, volume in volumes.items() if volume.warning
        ]
        self._dependencies.record(
            pod, *[ObjectEvent("VolumeInSharedMemory", warning) for warning in warnings]
        )
        return volumes

    async def start(
        self, pod: Object, container: Container, restart: int, volumes: PreparedVolumes
    ) -> ContainerRun:
        """Starts the container. Raises StartFailed, Unavailable."""
        _check_names(pod, container)
        dependencies = self._dependencies
        image = None
        if dependencies.image_manager is not None:
            image = await dependencies.image_manager.ensure_image(pod, container.spec)
        else:
            container = with_image_command(container, dependencies.images, dependencies.image_commands)
        objects = await self._get_objects(pod, object_references(container.spec))
        run = run_id(uid_of(pod), container.name, restart)
        hostname = host_name(pod, socket.gethostname())
        sandbox = await dependencies.sandboxes.run(pod, hostname)
        hosts = await self._dependencies.hosts.file_for(pod, self.pod_address)
        files = HostFiles(
            volumes,
            self._log(pod, container, restart),
            self._dependencies.termination_messages.create_file(run),
            self._dependencies.path,
            self._workdir(container),
            hosts,
            hostname,
            self._dependencies.hosts.hostname_file(pod, hostname) if hostname else None,
            self._allocate_gpus(pod).get(container.name, ()),
            sandbox,
            image,
        )
        sources = EnvironmentSources(self._downward_api(pod), objects)
        config = container_config(container, restart, sources, files)
        meta = pod["metadata"]
        config = replace(config, log_group=log_group(meta["namespace"], meta["name"]))
        self._record_differences(pod, container, config)
        try:
            return await self._dependencies.runtime.start_container(config)
        except StartFailed as error:
            if image is None and (hint := _hint(container, error)):
                raise StartFailed(error.reason, f"{error}; {hint}") from error
            if image or container.spec.get("volumeMounts") or error.reason == START_ERROR:
                raise
            # Without namespaces a container that mounts nothing itself runs without the file for its message.
            return await self._dependencies.runtime.start_container(replace(config, mounts=()))

    def exit_status(
        self, pod: Object, containers: int, container: Container, run: ContainerRun
    ) -> ExitStatus:
        """The exit status of the ended run, with its termination message; *containers* is the pod's number."""
        assert run.ended is not None
        if run.ended.is_unknown:
            return run.ended
        log = self._log(pod, container, int(run.id.rpartition(".")[2]))
        message = self._dependencies.termination_messages.read(
            run.id,
            container.spec,
            run.ended.exit_code,
            lambda lines, max_bytes: self._dependencies.logs.tail(log, lines, max_bytes),
            containers,
        )
        return replace(run.ended, message=message)

    def get_run(self, pod: Object, container: Container, restart: int) -> ContainerRun | None:
        """The run, if it exists in the runtime."""
        return self._dependencies.runtime.list_containers().get(run_id(uid_of(pod), container.name, restart))

    def gpus(self, pod: Object) -> GpuAllocation:
        """The GPUs of the pod's containers, also after they were released."""
        return self._dependencies.devices.allocated(uid_of(pod)) or self._released_gpus

    def release_gpus(self, pod: Object) -> None:
        """Releases the GPUs of the pod, whose containers have ended."""
        self._released_gpus = self._dependencies.devices.release(uid_of(pod)) or self._released_gpus

    def _workdir(self, container: Container) -> str:
        """The working directory of a container that sets none; empty for that of its image."""
        dependencies = self._dependencies
        if dependencies.image_manager is not None:
            return ""
        return dependencies.image_workdirs.get(container.spec.get("image", ""), dependencies.workdir)

    def _allocate_gpus(self, pod: Object) -> GpuAllocation:
        devices = self._dependencies.devices
        if allocation := devices.allocated(uid_of(pod)):
            return allocation
        allocation = devices.allocate(pod)
        for container, gpus in allocation.items():
            message = f"Allocated {GPU_RESOURCE} {','.join(gpus)} to container {container}"
            self._dependencies.record(pod, ObjectEvent("DevicesAllocated", message))
        return allocation

    def _downward_api(self, pod: Object) -> DownwardApiContext:
        return DownwardApiContext(pod, self.host_address, self._allocatable, self.pod_address)

    def _log(self, pod: Object, container: Container, restart: int) -> Path:
        meta = pod["metadata"]
        return self._dependencies.logs.path(
            meta["namespace"], meta["name"], meta["uid"], container.name, restart
        )

    async def _get_objects(
        self, pod: Object, references: Iterable[LocalObjectReference]
    ) -> ReferencedObjects:
        """The referenced objects that exist."""
        objects: dict[tuple[ResourceKind, str], Object] = {}
        for reference in references:
            try:
                objects[reference.kind, reference.name] = await self._dependencies.store.get(
                    reference.kind, pod["metadata"]["namespace"], reference.name
                )
            except NotFound:
                continue  # an error only if the reference is not optional
        return objects

    def _record_differences(self, pod: Object, container: Container, config: ContainerConfig) -> None:
        """Records events about what this machine does differently than a cluster."""
        dependencies = self._dependencies
        if dependencies.image_manager is None:
            if config.image not in dependencies.images:
                dependencies.record_once(pod, config.image, _not_pulled(container, config.image))
            ignored = ignored_gpu_variables(containers_of(pod))
        else:
            ignored = ()
        # An engine grants privileges and filters system calls, whatever this process may.
        has_engine = dependencies.image_manager is not None
        unsupported = [
            *unsupported_fields(
                pod, is_root=has_engine or os.geteuid() == 0, has_seccomp=has_engine or can_filter()
            ),
            *ignored,
            *dependencies.runtime.unsupported_features(config),
        ]
        new = [message for message in unsupported if message not in self._reported]
        self._reported.update(new)
        dependencies.record(pod, *map(_not_supported, new))
        for message in dependencies.network.unsupported_features(pod):
            dependencies.record_once(pod, message, _not_supported(message))


def _check_names(pod: Object, container: Container) -> None:
    """
    Raise StartFailed for a name that cannot be a part of a path.

    Admission rejects such names; this is for objects that were stored without it.
    """
    meta = pod["metadata"]
    for field, name in (
        ("metadata.namespace", meta["namespace"]),
        ("metadata.name", meta["name"]),
        ("metadata.uid", meta["uid"]),
        ("container name", container.name),
    ):
        if not is_file_name(name):
            raise StartFailed("CreateContainerConfigError", f"{field} {name!r} is invalid: rename it")


def _hint(container: Container, error: StartFailed) -> str:
    """What can be done if the container used a default of local mode; otherwise empty."""
    if error.reason == START_ERROR and not container.spec.get("command"):
        return f"it has no command, so its args were run: {without_command(container.spec)}"
    if error.reason == CREATE_ERROR and "chdir" in str(error) and not container.spec.get("workingDir"):
        return "set workingDir in its spec, or start the launcher with another --workdir"
    return ""


def _not_supported(message: str) -> ObjectEvent:
    return ObjectEvent("NotSupported", message, warning=True)


def _not_pulled(container: Container, image: str) -> ObjectEvent:
    return ObjectEvent(
        "ImageNotPulled",
        f'The image is not pulled: container "{container.name}" uses the host filesystem. To use images, start the '
        f"launcher with --runtime docker; to overlay a directory, with --image {image}=DIR.",
    )
