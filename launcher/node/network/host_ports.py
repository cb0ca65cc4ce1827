"""Forwards the host ports of isolated pods: connections to a port of the machine are passed on to the pod."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.errors import Unavailable
from launcher.node.network.pod_network import TCP, UDP, Endpoint, PodNetwork, connect, family_of
from launcher.node.network.tcp_relay import relay
from launcher.node.network.udp_forwarder import UdpForwarder, bound_socket
from launcher.node.pods.pod_spec import containers_of
from launcher.store.interface import Object

_ANY = "0.0.0.0"  # noqa: S104  # that of Kubernetes for a port without hostIP
#: The protocols whose ports are forwarded.
_PROTOCOLS = (TCP, UDP)
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ForwardedPort:
    """A port of the machine, and the port of the container to which it is forwarded."""

    host: str
    port: int
    container_port: int
    protocol: str = TCP


def host_ports(pod: Object) -> Sequence[ForwardedPort]:
    """The host ports of the pod's containers."""
    return [
        ForwardedPort(
            port.get("hostIP") or _ANY,
            port["hostPort"],
            port["containerPort"],
            port.get("protocol") or TCP,
        )
        for container in containers_of(pod)
        for port in container.spec.get("ports") or ()
        if port.get("hostPort")
    ]


def unsupported_ports(pod: Object) -> Sequence[str]:
    """A sentence for each host port that is not forwarded."""
    return [
        f"hostPort {port.port} is ignored: its protocol is {port.protocol}, and isolated pods have host ports of TCP "
        "and UDP only."
        for port in host_ports(pod)
        if port.protocol not in _PROTOCOLS
    ]


class HostPortForwarder:
    """The listening sockets of all pods with host ports, by uid."""

    def __init__(self, network: PodNetwork) -> None:
        self._network = network
        self._servers: dict[str, list[asyncio.Server | UdpForwarder]] = {}

    async def open(self, uid: str, ports: Sequence[ForwardedPort], address: str) -> None:
        """Listens at *ports*, unless that is done, and forwards to *address*. Raises Unavailable for a port in use."""
        if uid in self._servers or not ports:
            return
        servers: list[asyncio.Server | UdpForwarder] = []
        self._servers[uid] = servers
        for port in ports:
            if port.protocol not in _PROTOCOLS:
                continue
            try:
                servers.append(await self._listen(port, address))
            except OSError as error:
                self.close(uid)
                raise Unavailable(f"hostPort {port.port}: {error.strerror}") from error

    def close(self, uid: str) -> None:
        """Ends the forwarding to the pod."""
        for server in self._servers.pop(uid, ()):
            server.close()

    def close_all(self) -> None:
        for uid in list(self._servers):
            self.close(uid)

    async def _listen(self, port: ForwardedPort, address: str) -> asyncio.Server | UdpForwarder:
        if port.protocol == UDP:
            listener = bound_socket(
                socket.socket(family_of(port.host), socket.SOCK_DGRAM), port.host, port.port
            )
            return await UdpForwarder.listen(
                listener, self._network, [Endpoint(address, port.container_port)]
            )

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    connection = await connect(self._network, address, port.container_port)
            except (OSError, TimeoutError, Unavailable):
                writer.close()
                return
            await relay((reader, writer), connection)

        return await asyncio.start_server(forward, port.host, port.port)
