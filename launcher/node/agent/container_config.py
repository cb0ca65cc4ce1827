"""Builds the runtime's ContainerConfig from a container's spec."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.core.quantity import quantity
from launcher.node import machine
from launcher.node.container_runtime import (
    ContainerConfig,
    ImageStatus,
    Mount,
    ResourceLimits,
    StartFailed,
)
from launcher.node.network.pod_network import PodSandbox
from launcher.node.pods.confinement import container_confinement
from launcher.node.pods.environment import (
    EnvironmentSources,
    base_environment,
    check_command,
    command_and_args,
    container_environment,
)
from launcher.node.pods.gpus import device_environment, gpu_environment
from launcher.node.pods.oom import oom_score
from launcher.node.pods.pod_spec import Container, full_name, run_id, uid_of
from launcher.node.volumes.mounts import MountFailed
from launcher.node.volumes.volume_manager import PreparedVolumes, volume_mounts
from launcher.store.interface import Object

_REASON = "CreateContainerConfigError"
#: Processes and threads of one container: enough for any program, and a limit for a fork bomb.
MAX_PIDS = 16_384
_TERMINATION_LOG = "/dev/termination-log"
_HOSTS = "/etc/hosts"
_HOSTNAME = "/etc/hostname"
_RESOLV_CONF = "/etc/resolv.conf"


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The files and GPUs of this machine that a container uses, and its host name."""

    volumes: PreparedVolumes
    log: Path
    #: Mounted at the container's terminationMessagePath.
    termination_message: Path
    #: The search path of containers.
    path: str
    #: The working directory, unless the container sets one.
    workdir: str = "/"
    #: Mounted at /etc/hosts; None for that of this machine.
    hosts: Path | None = None
    #: The host name and the file mounted at /etc/hostname; empty and None for those of this machine.
    hostname: str = ""
    hostname_file: Path | None = None
    #: The indexes of the GPUs that were allocated to the container.
    gpus: Sequence[str] = ()
    #: The network of the pod; None for that of this machine.
    sandbox: PodSandbox | None = None
    #: The image of the container; None if the runtime uses this machine's files.
    image: ImageStatus | None = None


def container_config(
    container: Container, restart: int, sources: EnvironmentSources, files: HostFiles
) -> ContainerConfig:
    """The config of one start. Raises StartFailed if the spec is invalid or not supported."""
    pod, spec = sources.context.pod, container.spec
    _refuse_unsupported(spec)
    if files.image is None:
        check_command(spec)
    user, group, groups = _identity(pod, container, files.image)
    variables = container_environment(spec, sources)
    command, args = command_and_args(spec, variables)
    return ContainerConfig(
        run_id(uid_of(pod), container.name, restart),
        files.image.id if files.image is not None else spec.get("image", ""),
        command,
        _environment(spec, sources, files, variables, user),
        files.log,
        image_ref=files.image.ref if files.image is not None else "",
        args=args,
        directory=spec.get("workingDir") or files.workdir,
        mounts=_mounts(spec, files, variables),
        user=user,
        group=group,
        groups=groups,
        read_only_root=bool(_security_setting(pod, spec, "readOnlyRootFilesystem")),
        limits=resource_limits(spec),
        confinement=container_confinement(pod, spec),
        hostname=files.hostname,
        network=files.sandbox.namespace if files.sandbox else None,
        oom_score=oom_score(pod, spec, sources.context.allocatable),
        gpus=files.gpus,
        stdin=bool(spec.get("stdin")),
        stdin_once=bool(spec.get("stdin") and spec.get("stdinOnce")),
        tty=bool(spec.get("tty")),
    )


def _environment(
    spec: Mapping[str, Any],
    sources: EnvironmentSources,
    files: HostFiles,
    variables: Mapping[str, str],
    user: int | None,
) -> Mapping[str, str]:
    if files.image is not None:
        # The image has PATH; the engine sets HOME and HOSTNAME.
        return {**variables, **device_environment(spec, files.gpus, variables)}
    return {
        **base_environment(sources.context, files.path, machine.home_directory(user)),
        **variables,
        **gpu_environment(spec, files.gpus, variables),
    }


def resource_limits(spec: Mapping[str, Any]) -> ResourceLimits:
    """The resource limits of the container."""
    limits = (spec.get("resources") or {}).get("limits") or {}
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return ResourceLimits(
        int(quantity(memory)) if memory is not None and quantity(memory) else None,
        float(quantity(cpu)) if cpu is not None and quantity(cpu) else None,
        MAX_PIDS,
    )


def _refuse_unsupported(spec: Mapping[str, Any]) -> None:
    """Raises StartFailed for unsupported fields without which the container would not work."""
    if spec.get("volumeDevices"):
        raise StartFailed(
            _REASON, "volumeDevices: raw devices are not supported in local mode: mount a volume"
        )


def _mounts(spec: Mapping[str, Any], files: HostFiles, variables: Mapping[str, str]) -> Sequence[Mount]:
    try:
        mounts = list(volume_mounts(spec, files.volumes, variables))
    except MountFailed as error:
        raise StartFailed(_REASON, str(error)) from error
    target = spec.get("terminationMessagePath") or _TERMINATION_LOG
    if files.hosts is not None and not any(_covers(mount, _HOSTS) for mount in mounts):
        # Read-only, because all pods of a Framework share the file.
        mounts.append(Mount(files.hosts, _HOSTS, read_only=True))
    if files.hostname_file is not None and not any(_covers(mount, _HOSTNAME) for mount in mounts):
        mounts.append(Mount(files.hostname_file, _HOSTNAME, read_only=True))
    resolv_conf = files.sandbox.resolv_conf if files.sandbox else None
    if resolv_conf is not None and not any(_covers(mount, _RESOLV_CONF) for mount in mounts):
        mounts.append(Mount(resolv_conf, _RESOLV_CONF, read_only=True))
    return (*mounts, Mount(files.termination_message, target))


def _covers(mount: Mount, path: str) -> bool:
    """Whether *path* is at or below the mount."""
    return os.path.commonpath((mount.target, path)) == mount.target


def _security_setting(pod: Object, spec: Mapping[str, Any], name: str) -> Any:
    """The field of the container's securityContext, or else of the pod's."""
    own = (spec.get("securityContext") or {}).get(name)
    return (pod["spec"].get("securityContext") or {}).get(name) if own is None else own


def _identity(
    pod: Object, container: Container, image: ImageStatus | None
) -> tuple[int | None, int | None, Sequence[int]]:
    """
    User, group and supplementary groups; None for those of the image, or of the launcher without one.

    Raises StartFailed if root is forbidden.
    """
    spec = container.spec
    user, group = _security_setting(pod, spec, "runAsUser"), _security_setting(pod, spec, "runAsGroup")
    if _security_setting(pod, spec, "runAsNonRoot"):
        _refuse_root(pod, container, user, image)
    if user is not None and group is None and image is None:
        group = machine.primary_group(user)
    context = pod["spec"].get("securityContext") or {}
    groups = [*(context.get("supplementalGroups") or ())]
    if context.get("fsGroup") is not None:
        groups.append(context["fsGroup"])
    return user, group, tuple(dict.fromkeys(groups))


def _refuse_root(pod: Object, container: Container, user: int | None, image: ImageStatus | None) -> None:
    subject = f'(pod: "{full_name(pod)}", container: {container.name})'
    if user == 0:
        raise StartFailed(_REASON, f"container's runAsUser breaks non-root policy {subject}")
    if user is not None:
        return
    name = (image.user.partition(":")[0] if image is not None else str(os.geteuid())) or "0"
    if not name.isdecimal():
        raise StartFailed(
            _REASON,
            f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root "
            f"{subject}: set runAsUser",
        )
    if int(name) == 0:
        raise StartFailed(
            _REASON, f"container has runAsNonRoot and image will run as root {subject}: set runAsUser"
        )
