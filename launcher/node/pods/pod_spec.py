"""Reads a pod's spec: its containers, grace periods, and the ids of its runs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any

from launcher.core.timestamps import parse_rfc3339
from launcher.node.container_runtime import RunId
from launcher.store.interface import Object

_DEFAULT_GRACE_SECONDS = 30
_RUN_ID = re.compile(r"([0-9a-zA-Z-]+)\.([a-z0-9-]+)\.([0-9]{1,9})")


class ContainerRole(Enum):
    """The list of the pod's spec from which a container comes."""

    #: Runs to completion before the next one starts.
    INIT = "init"
    #: Starts among the init containers, and continues next to the main containers.
    SIDECAR = "sidecar"
    MAIN = "main"


class RestartPolicy(StrEnum):
    """Which containers are restarted."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of the pod's spec."""

    name: str
    role: ContainerRole
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunName:
    """The parts of a run's id."""

    uid: str
    container: str
    restart: int


def run_id(uid: str, container: str, restart: int) -> RunId:
    """The id of one start of a container, by the uid of its pod."""
    return RunId(f"{uid}.{container}.{restart}")


def parse_run_id(run: RunId) -> RunName | None:
    """The parts of the id; None for a run that does not belong to a pod."""
    match = _RUN_ID.fullmatch(run)
    return RunName(match[1], match[2], int(match[3])) if match else None


def containers_of(pod: Object) -> tuple[Container, ...]:
    """All containers, the init containers and sidecars first."""
    spec = pod["spec"]
    init_containers = [
        Container(container["name"], _init_role(container), container)
        for container in spec.get("initContainers") or ()
    ]
    return (
        *init_containers,
        *[
            Container(container["name"], ContainerRole.MAIN, container)
            for container in spec.get("containers") or ()
        ],
    )


def _init_role(container: Mapping[str, Any]) -> ContainerRole:
    is_sidecar = container.get("restartPolicy") == RestartPolicy.ALWAYS
    return ContainerRole.SIDECAR if is_sidecar else ContainerRole.INIT


def restart_policy(pod: Object) -> RestartPolicy:
    return RestartPolicy(pod["spec"].get("restartPolicy") or RestartPolicy.ALWAYS)


def grace_seconds(pod: Object) -> int:
    """Seconds between SIGTERM and SIGKILL; a delete request may have shortened the pod's grace period."""
    seconds = pod["metadata"].get("deletionGracePeriodSeconds")
    if seconds is None:
        seconds = pod["spec"].get("terminationGracePeriodSeconds")
    return _DEFAULT_GRACE_SECONDS if seconds is None else int(seconds)


def deletion_deadline(pod: Object) -> float:
    """When the grace period of a deleted pod ends, also if it began before the launcher started."""
    # The timestamp is truncated to seconds: one more, so that the grace period is not shortened.
    return parse_rfc3339(pod["metadata"]["deletionTimestamp"]) + 1.0


def uid_of(pod: Object) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def full_name(pod: Object) -> str:
    """``mnist-worker-0_default(0d3c…)``: the pod in messages, as the kubelet writes it."""
    meta = pod["metadata"]
    return f"{meta['name']}_{meta['namespace']}({meta['uid']})"


#: Entrypoints by image, as containers name it; empty for an image that has only a directory.
Entrypoints = Mapping[str, Sequence[str]]
#: Commands by the image's name, without registry and tag.
ImageCommands = Mapping[str, Sequence[str]]


def with_image_command(container: Container, entrypoints: Entrypoints, commands: ImageCommands) -> Container:
    """The container, with the configured entrypoint or command of its image if it has no command."""
    if container.spec.get("command"):
        return container
    image = container.spec.get("image") or ""
    command = entrypoints.get(image) or _image_command(image, commands)
    return container if not command else replace(container, spec={**container.spec, "command": [*command]})


def _image_command(image: str, commands: ImageCommands) -> list[str] | None:
    repository = image.partition("@")[0]
    directories, slash, name = repository.rpartition("/")
    # A colon before the last slash belongs to the registry's port.
    repository = directories + slash + name.partition(":")[0]
    for suffix, command in commands.items():
        if repository == suffix or repository.endswith(f"/{suffix}"):
            return list(command)
    return None
