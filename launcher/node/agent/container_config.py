"""From a container's spec to the order that the runtime carries out, with nothing left to look up."""

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.core.quantity import quantity
from launcher.node.container_runtime import ContainerConfig, Mount, ResourceLimits, StartFailed
from launcher.node.pods.confinement import confinement_of
from launcher.node.pods.environment import EnvironmentSources as Values
from launcher.node.pods.environment import base_environment, command_line, own_environment
from launcher.node.pods.oom import oom_score
from launcher.node.pods.pod_spec import Container, full_name, run_id, uid_of
from launcher.node.volumes.mounts import MountFailed
from launcher.node.volumes.volume_manager import PreparedVolumes, mounts_of
from launcher.store.interface import Object

_REASON = "CreateContainerConfigError"
#: Processes and threads of one container: enough for any program, and an end to one that only forks.
MAX_PIDS = 16_384
_TERMINATION_LOG = "/dev/termination-log"
_HOSTS = "/etc/hosts"
_HOSTNAME = "/etc/hostname"


@dataclass(frozen=True, slots=True)
class HostPaths:
    """What an order needs to know of this machine and of what was made ready for the pod."""

    volumes: PreparedVolumes
    log: Path
    #: The file that stands at the container's terminationMessagePath.
    last_words: Path
    #: The launcher's own search path.
    path: str
    #: The file that stands at /etc/hosts; None where that of this machine does.
    hosts: Path | None = None
    #: What gethostname() answers, and the file that stands at /etc/hostname; nothing where those of this machine do.
    hostname: str = ""
    hostname_file: Path | None = None


def container_config(container: Container, restart: int, values: Values, place: HostPaths) -> ContainerConfig:
    """The order of one start. Raises StartFailed when the spec asks for what cannot be."""
    pod, spec = values.facts.pod, container.spec
    _refuse_unknown(spec)
    user, group, groups = _identity(pod, container)
    variables = own_environment(spec, values)
    own_root = _setting(pod, spec, "readOnlyRootFilesystem")
    return ContainerConfig(
        run_id(uid_of(pod), container.name, restart),
        spec.get("image", ""),
        command_line(spec, variables),
        {**base_environment(values.facts, place.path, user), **variables},
        place.log,
        directory=spec.get("workingDir") or "/",
        mounts=_mounts(spec, place, variables),
        user=user,
        group=group,
        groups=groups,
        read_only_root=bool(own_root),
        limits=limits_of(spec),
        confinement=confinement_of(pod, spec),
        hostname=place.hostname,
        oom_score=oom_score(pod, spec, values.facts.allocatable),
    )


def limits_of(spec: Mapping[str, Any]) -> ResourceLimits:
    """What the container may use."""
    limits = (spec.get("resources") or {}).get("limits") or {}
    memory, cpu = limits.get("memory"), limits.get("cpu")
    return ResourceLimits(
        int(quantity(memory)) if memory is not None and quantity(memory) else None,
        float(quantity(cpu)) if cpu is not None and quantity(cpu) else None,
        MAX_PIDS,
    )


def _refuse_unknown(spec: Mapping[str, Any]) -> None:
    """Raises StartFailed for what this node does not do: better than a container that lacks it."""
    if spec.get("volumeDevices"):
        raise StartFailed(_REASON, "volumeDevices: raw devices are not given out here: mount a volume")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if (spec.get(probe) or {}).get("grpc"):
            raise StartFailed(_REASON, f"{probe}.grpc is not known here: use exec, httpGet or tcpSocket")


def _mounts(spec: Mapping[str, Any], place: HostPaths, variables: Mapping[str, str]) -> Sequence[Mount]:
    try:
        mounts = list(mounts_of(spec, place.volumes, variables))
    except MountFailed as error:
        raise StartFailed(_REASON, str(error)) from error
    target = spec.get("terminationMessagePath") or _TERMINATION_LOG
    if place.hosts is not None and not any(_covers(mount, _HOSTS) for mount in mounts):
        # All pods of a Framework have the same file, so that none may change it.
        mounts.append(Mount(place.hosts, _HOSTS, read_only=True))
    if place.hostname_file is not None and not any(_covers(mount, _HOSTNAME) for mount in mounts):
        mounts.append(Mount(place.hostname_file, _HOSTNAME, read_only=True))
    return (*mounts, Mount(place.last_words, target))


def _covers(mount: Mount, path: str) -> bool:
    """Whether the user has put something of their own there."""
    return os.path.commonpath((mount.target, path)) == mount.target


def _setting(pod: Object, spec: Mapping[str, Any], name: str) -> Any:
    """The container's security setting, or else the pod's."""
    own = (spec.get("securityContext") or {}).get(name)
    return (pod["spec"].get("securityContext") or {}).get(name) if own is None else own


def _identity(pod: Object, container: Container) -> tuple[int | None, int | None, Sequence[int]]:
    """User, group and further groups; None is the launcher's own. Raises StartFailed where root is forbidden."""
    spec = container.spec
    user, group = _setting(pod, spec, "runAsUser"), _setting(pod, spec, "runAsGroup")
    if _setting(pod, spec, "runAsNonRoot"):
        _refuse_root(pod, container, user)
    if user is not None and group is None:
        group = _group_of(user)
    context = pod["spec"].get("securityContext") or {}
    groups = [*(context.get("supplementalGroups") or ())]
    if context.get("fsGroup") is not None:
        groups.append(context["fsGroup"])
    return user, group, tuple(dict.fromkeys(groups))


def _group_of(user: int) -> int:
    """The user's own group on this machine, root's for a user that is not known here, as container engines do."""
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return 0


def _refuse_root(pod: Object, container: Container, user: int | None) -> None:
    whose = f'(pod: "{full_name(pod)}", container: {container.name})'
    if user == 0:
        raise StartFailed(_REASON, f"container's runAsUser breaks non-root policy {whose}")
    if user is None and os.geteuid() == 0:
        raise StartFailed(
            _REASON, f"container has runAsNonRoot and image will run as root {whose}: set runAsUser"
        )
