"""What the agent reads of a pod: its containers, its times of grace, and what its runs are called."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any

from launcher.core.timestamps import parse_rfc3339
from launcher.node.container_runtime import RunId
from launcher.store.interface import Object

_DEFAULT_GRACE = 30
_RUN = re.compile(r"([0-9a-zA-Z-]+)\.([a-z0-9-]+)\.([0-9]{1,9})")


class ContainerRole(Enum):
    """What a container is to its pod."""

    #: Runs to its end before the next one starts.
    INIT = "init"
    #: Starts among the init containers, and goes on beside the main ones.
    SIDECAR = "sidecar"
    MAIN = "main"


class RestartPolicy(StrEnum):
    """Which containers run again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Container:
    """One container as the pod's spec has it."""

    name: str
    role: ContainerRole
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunName:
    """What a run's id says."""

    uid: str
    container: str
    restart: int


def run_id(uid: str, container: str, restart: int) -> RunId:
    """The id of that start of that container of that pod."""
    return RunId(f"{uid}.{container}.{restart}")


def run_name(run: RunId) -> RunName | None:
    """What the id says; None for a run that is no pod's."""
    found = _RUN.fullmatch(run)
    return RunName(found[1], found[2], int(found[3])) if found else None


def containers_of(pod: Object) -> tuple[Container, ...]:
    """Every container: those that initialize first, in their order."""
    spec = pod["spec"]
    first = [
        Container(
            one["name"],
            ContainerRole.SIDECAR if one.get("restartPolicy") == RestartPolicy.ALWAYS else ContainerRole.INIT,
            one,
        )
        for one in spec.get("initContainers") or ()
    ]
    return (
        *first,
        *[Container(one["name"], ContainerRole.MAIN, one) for one in spec.get("containers") or ()],
    )


def restart_policy(pod: Object) -> RestartPolicy:
    return RestartPolicy(pod["spec"].get("restartPolicy") or RestartPolicy.ALWAYS)


def grace_of(pod: Object) -> int:
    """Seconds between asking a container to end and ending it; whoever deletes the pod may have said less."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds")
    return _DEFAULT_GRACE if asked is None else int(asked)


def is_deleted(pod: Object) -> bool:
    """Whether its deletion has been asked for."""
    return "deletionTimestamp" in pod["metadata"]


def grace_ends(pod: Object) -> float:
    """When the grace of a deleted pod is over, whoever watched it until now."""
    # The stamp is in whole seconds, cut off: a second more, so that nobody gets less than was promised.
    return parse_rfc3339(pod["metadata"]["deletionTimestamp"]) + 1.0


def node_name(pod: Object) -> str | None:
    """The node that the pod is bound to."""
    name: str | None = pod["spec"].get("nodeName")
    return name


def uid_of(pod: Object) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def full_name(pod: Object) -> str:
    """``mnist-worker-0_default(0d3c…)``: the pod in sentences, as the kubelet writes it."""
    meta = pod["metadata"]
    return f"{meta['name']}_{meta['namespace']}({meta['uid']})"


#: Commands by the image's name, without registry and tag.
ImageCommands = Mapping[str, Sequence[str]]


def stood_in_for(container: Container, stand_ins: ImageCommands) -> Container:
    """The container, with the command that stands for its image if it has none of its own."""
    if container.spec.get("command"):
        return container
    command = _command(container.spec.get("image") or "", stand_ins)
    return container if command is None else replace(container, spec={**container.spec, "command": command})


def _command(image: str, stand_ins: ImageCommands) -> list[str] | None:
    repository = image.partition("@")[0]
    directories, slash, name = repository.rpartition("/")
    # A colon before the last slash is that of a registry's port.
    repository = directories + slash + name.partition(":")[0]
    for known, command in stand_ins.items():
        if repository == known or repository.endswith(f"/{known}"):
            return list(command)
    return None
