"""Converts a ContainerConfig to a container of the Docker Engine API, and its state to that of a run."""

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.core.json_access import as_object
from launcher.core.replicas import as_int
from launcher.node.container_runtime import (
    CREATE_ERROR,
    START_ERROR,
    ContainerConfig,
    ExitStatus,
    Mount,
    ResourceUsage,
    RunId,
    StartFailed,
)

Json = dict[str, Any]

#: Labels of every container: the data directory to which it belongs, its run, and where its log is written. A sandbox
#: container has that of its pod instead.
INSTANCE = "launcher.microsoft.com/instance"
RUN = "launcher.microsoft.com/run"
LOG = "launcher.microsoft.com/log"
LOG_GROUP = "launcher.microsoft.com/log-group"
IMAGE_REF = "launcher.microsoft.com/image-ref"
SANDBOX = "launcher.microsoft.com/sandbox"

#: In errors of a start: the program is missing or cannot be executed, so another start fails in the same way.
_NOT_EXECUTABLE = re.compile(
    r'exec: "[^"]*": (executable file not found|stat |no such file|permission denied|is a directory)'
    r"|exec format error|exec user process caused"
)
#: The time of what has not happened.
_NEVER = "0001-01-01"


def container_name(run: RunId) -> str:
    """The name of the run's container in the engine: no two containers have the same."""
    return f"launcher-{run}"


def sandbox_name(pod_uid: str) -> str:
    """The name of the pod's sandbox container in the engine."""
    return f"launcher-{pod_uid}"


def create_options(
    config: ContainerConfig, labels: Mapping[str, str], hidden: Sequence[Path], *, podman: bool
) -> Json:
    """
    The body of the request that creates the container, for Podman or Docker. Raises StartFailed.

    *labels* are those of all containers of the launcher. The files and directories *hidden* cannot be reached through
    host paths.
    """
    options: Json = {
        "Image": config.image,
        "Env": [f"{name}={value}" for name, value in config.environment.items()],
        "Labels": {
            **labels,
            RUN: config.id,
            LOG: str(config.log),
            LOG_GROUP: config.log_group,
            IMAGE_REF: config.image_ref,
        },
        "HostConfig": _host_config(config, hidden, podman=podman),
    }
    if config.stdin:
        options |= {"OpenStdin": True, "StdinOnce": config.stdin_once}
    if config.tty:
        options["Tty"] = True
    if config.command:
        options["Entrypoint"] = list(config.command)
    if config.args or config.command:
        options["Cmd"] = list(config.args)
    if config.directory:
        options["WorkingDir"] = config.directory
    if config.hostname and (podman or config.network is None):
        # A container of Docker that joins another one has its host name.
        options["Hostname"] = config.hostname
    if config.user is not None:
        options["User"] = str(config.user) if config.group is None else f"{config.user}:{config.group}"
    return options


def _host_config(config: ContainerConfig, hidden: Sequence[Path], *, podman: bool) -> Json:
    limits, confinement = config.limits, config.confinement
    host: Json = {
        "NetworkMode": _network_mode(config, podman=podman),
        # The log is read from the engine, which may have another default.
        "LogConfig": {"Type": "json-file", "Config": {}},
        "Mounts": list(_mounts(config.mounts, hidden)),
        "ReadonlyRootfs": config.read_only_root,
        "GroupAdd": [str(group) for group in config.groups],
    }
    if limits.memory is not None:
        # The same limit with swap: no swap.
        host |= {"Memory": limits.memory, "MemorySwap": limits.memory}
    if limits.cpu is not None:
        host["NanoCpus"] = int(limits.cpu * 1e9)
    if limits.pids is not None:
        host["PidsLimit"] = limits.pids
    if config.oom_score is not None:
        # Only a privileged engine could protect a container from the OOM killer.
        host["OomScoreAdj"] = max(0, config.oom_score)
    if confinement.capabilities is None:
        host["Privileged"] = True
    else:
        host |= {"CapDrop": ["ALL"], "CapAdd": sorted(confinement.capabilities)}
    if confinement.no_new_privileges:
        host["SecurityOpt"] = ["no-new-privileges"]
    if config.gpus:
        host |= _gpu_requests(config.gpus, podman=podman)
    return host


def _network_mode(config: ContainerConfig, *, podman: bool) -> str:
    if config.network is None:
        return "host"
    if podman:
        return f"ns:{config.network}"
    return f"container:{sandbox_name(config.id.partition('.')[0])}"


def _gpu_requests(gpus: Sequence[str], *, podman: bool) -> Json:
    if podman:
        return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={gpu}" for gpu in gpus]}]}
    return {
        "DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": list(gpus), "Capabilities": [["gpu"]]}],
    }


def _mounts(mounts: Sequence[Mount], hidden: Sequence[Path]) -> Iterator[Json]:
    for mount in mounts:
        source = Path(os.path.realpath(mount.source))
        if not source.exists():
            # The engine would create a directory.
            raise StartFailed("CreateContainerConfigError", f"{mount.source} does not exist")
        yield _bind(source, mount.target, read_only=mount.read_only)
        if mount.host_path:
            yield from _covers(source, mount.target, hidden)


def _covers(source: Path, target: str, hidden: Sequence[Path]) -> Iterator[Json]:
    """Mounts over the launcher's own files below a host path. Raises StartFailed for a path inside of them."""
    for each in hidden:
        path = Path(os.path.realpath(each))
        if source == path or path in source.parents:
            raise StartFailed(
                "CreateContainerConfigError", f"hostPath {source} is a file of the launcher: use another path"
            )
        if source in path.parents and path.exists():
            inside = f"{target}/{path.relative_to(source)}"
            if path.is_dir():
                yield {"Type": "tmpfs", "Target": inside, "ReadOnly": True}
            else:
                yield _bind(Path(os.devnull), inside, read_only=True)


def _bind(source: Path, target: str, *, read_only: bool) -> Json:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def start_failure(message: str) -> StartFailed:
    """The error of a start that the engine rejected with *message*."""
    if _NOT_EXECUTABLE.search(message):
        return StartFailed(START_ERROR, message)
    return StartFailed("RunContainerError", message)


def create_failure(message: str) -> StartFailed:
    """The error of a container that the engine refused to create with *message*."""
    return StartFailed(CREATE_ERROR, message)


def has_started(shown: Mapping[str, Any]) -> bool:
    """
    Whether the container, as inspected, was ever started.

    Docker that was killed during the start may show the container as running, or exited with 0, without a time of its
    start; then its program may never have been executed.
    """
    state = shown["State"]
    return state.get("Status") not in ("created", "initialized", "configured") and not str(
        state.get("StartedAt", _NEVER)
    ).startswith(_NEVER)


def has_ended(shown: Mapping[str, Any]) -> bool:
    return has_started(shown) and shown["State"].get("Status") in ("exited", "dead", "stopped", "removing")


def has_terminal(shown: Mapping[str, Any]) -> bool:
    """Whether the streams of the container, as inspected, are a terminal."""
    return bool(as_object(shown.get("Config")).get("Tty"))


def started_at(shown: Mapping[str, Any]) -> float:
    return _time(shown["State"]["StartedAt"])


def exit_status(shown: Mapping[str, Any], *, out_of_memory: bool) -> ExitStatus:
    """The exit status of a container that has ended; *out_of_memory*: it was observed that its memory ran out."""
    state = shown["State"]
    code = int(state.get("ExitCode") or 0)
    killed = bool(state.get("OOMKilled")) or out_of_memory
    # Docker also reports a killed child of a process that then exits with another code.
    return ExitStatus.of_process(code, _time(state["FinishedAt"]), out_of_memory=killed and code != 0)


def resource_usage(stats: Mapping[str, Any]) -> ResourceUsage:
    """What a container has used, without the pages of files that the kernel can reclaim at once, as the kubelet."""
    memory = as_object(stats.get("memory_stats"))
    details = as_object(memory.get("stats"))
    inactive = as_int(details.get("inactive_file", details.get("total_inactive_file")))
    nanoseconds = as_int(as_object(as_object(stats.get("cpu_stats")).get("cpu_usage")).get("total_usage"))
    return ResourceUsage(nanoseconds / 1e9, max(0, as_int(memory.get("usage")) - inactive))


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def kill_processes(container: str) -> None:
    """
    Kills the processes of the container with that id, as far as this process may.

    They are those in its cgroup, and those with the id in their command lines: the monitor that the engine has started
    for the container, and the program by which that creates it.
    """
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has exited, or belongs to another user
                command = (entry / "cmdline").read_bytes()
                if container.encode() in command or container in (entry / "cgroup").read_text():
                    os.kill(int(entry.name), signal.SIGKILL)
