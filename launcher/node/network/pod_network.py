"""
The network of pods: that of the machine, or a network namespace with an address of its own for each pod.

A pod on the host network always uses that of the machine, with the address of its node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launcher.core.errors import LauncherError
from launcher.store.interface import Object


class PodNetworkUnavailable(LauncherError):
    """Pods cannot be isolated on this machine, or by this user."""


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """What the containers of an isolated pod share."""

    #: The file on which the network namespace is mounted.
    namespace: Path
    #: Mounted at /etc/resolv.conf; None for that of the machine.
    resolv_conf: Path | None = None


class PodNetwork(Protocol):
    """The network of the pods of this machine."""

    @property
    def gateway(self) -> str:
        """The address of the machine for isolated pods; empty if no pod is isolated."""
        ...

    async def add(self, pod: Object, node_address: str) -> str:
        """The address of the pod, which it keeps until ``detach``. Raises Unavailable."""
        ...

    async def attach(self, pod: Object) -> PodSandbox | None:
        """The sandbox of the pod, created if needed; None for the network of the machine. Raises Unavailable."""
        ...

    async def detach(self, uid: str) -> None:
        """Removes the pod's namespace and releases its address; its processes have ended."""
        ...

    def pod_uids(self) -> Sequence[str]:
        """The pods that have a namespace or an address."""
        ...

    def unsupported_features(self) -> Sequence[str]:
        """What pods cannot reach, one sentence each."""
        ...


class SharedPodNetwork:
    """All pods use the network of the machine, with the addresses of their nodes."""

    gateway = ""

    async def add(self, pod: Object, node_address: str) -> str:  # noqa: ARG002  # that of all its pods
        return node_address

    async def attach(self, pod: Object) -> PodSandbox | None:  # noqa: ARG002
        return None

    async def detach(self, uid: str) -> None:
        pass

    def pod_uids(self) -> Sequence[str]:
        return ()

    def unsupported_features(self) -> Sequence[str]:
        return ()
