"""The use of CPU and memory by the containers of this machine."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What a container uses."""

    #: Cores, on average over the window.
    cpu: float
    #: Bytes, at the end of the window.
    memory: int


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What the running containers use."""

    #: The end of the window, in seconds since 1970, and its length.
    at: float
    window_seconds: float
    #: By the uid of the pod and the name of the container.
    containers: Mapping[tuple[str, str], ContainerUsage]
