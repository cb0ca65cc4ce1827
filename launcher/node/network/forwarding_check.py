"""
Checks that this machine forwards the packets of pods, as root.

A firewall may drop them although the rules of the pod network are set: Docker, for instance, sets the policy of the
chain FORWARD to DROP. Two throw-away namespaces exchange packets, one in the place of a pod and one in the place of
another machine; for the ports of Services, one that reaches itself. Nothing is sent to other machines.
"""

import select
import socket
from ipaddress import IPv4Network

from launcher.node.network.bridge import Bridge
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY
from launcher.node.network.pod_network import UDP, Endpoint, ListenAddress, PodBridge
from launcher.node.network.subnet import cluster_ips

#: The number of packets after which they count as dropped, and the time between two. The first one may be lost.
_PACKETS, _RESEND_SECONDS = 10, 0.1
#: The namespaces instead of the uids of pods.
_NAMESPACE, _CHECK_PORT = "check", 9
NOT_FORWARDED = (
    "the firewall of this machine drops the packets that it forwards (the chain FORWARD of iptables, if Docker is "
    "installed)"
)


def check_bridge(network_id: str) -> Bridge:
    """The bridge that takes the place of another network; it exists only during the check."""
    other = f"x{network_id[1:]}"
    return Bridge(other, NAMESPACES_DIRECTORY / other)


def why_not_forwarded(bridge: Bridge, subnet: IPv4Network, outside: IPv4Network) -> str:
    """Why packets are not forwarded from *subnet* to *outside*, an unused subnet; empty if they are. Raises OSError."""
    other = check_bridge(bridge.network_id)
    try:
        other.create(outside)
        # The last address is that of broadcasts. No pod has one of the last.
        pod, machine = subnet[-2], outside[-2]
        bridge.attach(_NAMESPACE, pod, subnet)
        other.attach(_NAMESPACE, machine, outside)
        with (
            bridge.open_socket(_NAMESPACE, socket.AF_INET, socket.SOCK_DGRAM) as client,
            other.open_socket(_NAMESPACE, socket.AF_INET, socket.SOCK_DGRAM) as server,
        ):
            server.bind((str(machine), 0))
            return "" if _exchange(client, server, server.getsockname()) else NOT_FORWARDED
    finally:
        bridge.detach(_NAMESPACE)
        other.remove()


def why_services_not_forwarded(bridge: PodBridge, subnet: IPv4Network) -> str:
    """Why the rules of *bridge* do not forward a port of a Service; empty if they do. Raises OSError."""
    # No Service has the first address.
    port, pod = ListenAddress(UDP, str(cluster_ips(subnet)[0]), _CHECK_PORT), subnet[-2]
    try:
        bridge.attach(_NAMESPACE, pod, subnet)
        with (
            bridge.open_socket(_NAMESPACE, socket.AF_INET, socket.SOCK_DGRAM) as client,
            bridge.open_socket(_NAMESPACE, socket.AF_INET, socket.SOCK_DGRAM) as server,
        ):
            server.bind((str(pod), 0))
            bridge.replace_services({port: [Endpoint(*server.getsockname())]}, [])
            is_forwarded = _exchange(client, server, (port.host, port.port))
            bridge.replace_services({}, [port])
            return "" if is_forwarded else NOT_FORWARDED
    finally:
        bridge.detach(_NAMESPACE)


def _exchange(client: socket.socket, server: socket.socket, address: tuple[str, int]) -> bool:
    """Whether a packet of the client reaches the server at *address*, and the response the client."""
    for _ in range(_PACKETS):
        client.sendto(b"?", address)
        ready, _, _ = select.select([client, server], [], [], _RESEND_SECONDS)
        if server in ready:
            _, sender = server.recvfrom(16)
            server.sendto(b"!", sender)
            ready, _, _ = select.select([client], [], [], _RESEND_SECONDS)
        if client in ready:
            return True
    return False
