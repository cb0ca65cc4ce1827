"""
The network of pods: that of the machine, or a network namespace with an address of its own for each pod.

A pod on the host network always uses that of the machine, with the address of its node.
"""

import asyncio
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import NamedTuple, Protocol

from launcher.core.errors import LauncherError
from launcher.store.interface import Object

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

TCP, UDP = "TCP", "UDP"


class PodNetworkUnavailable(LauncherError):
    """Pods cannot be isolated on this machine, or by this user."""


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """What the containers of an isolated pod share."""

    #: The file on which the network namespace is mounted.
    namespace: Path
    #: Mounted at /etc/resolv.conf; None for that of the machine.
    resolv_conf: Path | None = None


class Endpoint(NamedTuple):
    """A port of a pod."""

    address: str
    port: int


class ListenAddress(NamedTuple):
    """Where connections to a Service arrive."""

    protocol: str
    host: str
    port: int


class PodNetwork(Protocol):
    """The network of the pods of this machine. A pod is isolated from ``add`` to ``detach``."""

    @property
    def gateway(self) -> str:
        """The address of the machine for isolated pods; empty if no pod is isolated."""
        ...

    @property
    def cluster_ips(self) -> IPv4Network:
        """The range of the addresses of Services."""
        ...

    async def add(self, pod: Object, node_address: str) -> str:
        """The address of the pod, which it keeps until ``detach``. Raises Unavailable."""
        ...

    def is_isolated(self, uid: str) -> bool:
        """Whether the pod has an address of its own."""
        ...

    async def attach(self, pod: Object, process: int | None) -> PodSandbox | None:
        """
        The sandbox of the pod, created if needed; None for the network of the machine. Raises Unavailable.

        Its network namespace is that of the *process*, or a new one.
        """
        ...

    def sandbox(self, uid: str) -> PodSandbox | None:
        """The sandbox of the pod, if it exists."""
        ...

    async def detach(self, uid: str) -> None:
        """Removes the pod's namespace and releases its address; its processes have ended."""
        ...

    async def open_socket(self, address: str, uid: str = "", kind: int = socket.SOCK_STREAM) -> socket.socket:
        """A socket that reaches the IP *address*; with *uid*, in the network of that pod. Raises Unavailable."""
        ...

    async def forward(
        self, endpoints: Mapping[ListenAddress, Sequence[Endpoint]]
    ) -> Collection[ListenAddress]:
        """
        Replaces the ports of cluster IPs that the kernel forwards to endpoints, of which each has at least one.

        Returns the ports that it does not forward: the launcher has to listen on them.
        """
        ...

    def pod_uids(self) -> Sequence[str]:
        """The pods that have a namespace or an address."""
        ...

    def unsupported_features(self, pod: Object) -> Sequence[str]:
        """What the pod cannot reach or be separated from, one sentence each."""
        ...


class PodBridge(Protocol):
    """The bridge of isolated pods, as far as it differs between root and normal users. All methods block."""

    def connect_outside(self, subnet: IPv4Network) -> str: ...
    def open_services(self, subnet: IPv4Network) -> str: ...
    def service_ports(self) -> Sequence[ListenAddress]: ...
    def replace_services(
        self, ports: Mapping[ListenAddress, Sequence[Endpoint]], deleted: Sequence[ListenAddress]
    ) -> None: ...
    def close_services(self) -> None: ...
    def attach(
        self, uid: str, address: IPv4Address, subnet: IPv4Network, process: int | None = None
    ) -> None: ...
    def detach(self, uid: str) -> None: ...
    def namespace(self, uid: str) -> Path | None: ...
    def open_socket(self, uid: str, family: int, kind: int) -> socket.socket: ...
    def remove(self) -> None: ...


class SharedPodNetwork:
    """All pods use the network of the machine, with the addresses of their nodes."""

    gateway = ""
    #: Every user can listen on these addresses. Two launchers of a machine hardly choose the same one.
    cluster_ips = IPv4Network("127.96.0.0/12")

    def __init__(self, reason: str = "") -> None:
        """*reason*: why pods are not isolated, although they should be."""
        self._reason = reason

    async def add(self, pod: Object, node_address: str) -> str:  # noqa: ARG002  # that of all its pods
        return node_address

    def is_isolated(self, uid: str) -> bool:  # noqa: ARG002  # no pod is
        return False

    async def attach(self, pod: Object, process: int | None) -> PodSandbox | None:  # noqa: ARG002  # nothing is created
        return None

    def sandbox(self, uid: str) -> PodSandbox | None:  # noqa: ARG002  # no pod has one
        return None

    async def detach(self, uid: str) -> None:
        pass

    async def open_socket(
        self,
        address: str,
        uid: str = "",  # noqa: ARG002  # all use the same network
        kind: int = socket.SOCK_STREAM,
    ) -> socket.socket:
        return socket.socket(family_of(address), kind)

    async def forward(
        self, endpoints: Mapping[ListenAddress, Sequence[Endpoint]]
    ) -> Collection[ListenAddress]:
        return endpoints.keys()

    def pod_uids(self) -> Sequence[str]:
        return ()

    def unsupported_features(self, pod: Object) -> Sequence[str]:
        if not self._reason or pod["spec"].get("hostNetwork"):
            return ()
        return [f"The pod uses the network of the machine, because it cannot be isolated: {self._reason}."]


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


async def connect(network: PodNetwork, address: str, port: int, uid: str = "") -> Connection:
    """A TCP connection to an IP address, from inside of the pod if there is a *uid*. Raises OSError, Unavailable."""
    connection = await network.open_socket(address, uid)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise
