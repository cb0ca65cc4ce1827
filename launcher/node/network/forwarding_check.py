"""
Checks that this machine forwards the packets of pods, as root.

A firewall may drop them although the rules of the pod network are set: Docker, for instance, sets the policy of the
chain FORWARD to DROP. Two throw-away namespaces exchange packets, one in the place of a pod and one in the place of
another machine. Nothing is sent to other machines.
"""

import select
import socket
from ipaddress import IPv4Address, IPv4Network

from launcher.node.network.bridge import Bridge
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY

#: The number of packets after which they count as dropped, and the time between two. The first one may be lost.
_PACKETS, _RESEND_SECONDS = 10, 0.1
#: The namespaces instead of the uids of pods.
_NAMESPACE = "check"
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
            return "" if _exchange(client, server, machine) else NOT_FORWARDED
    finally:
        bridge.detach(_NAMESPACE)
        other.remove()


def _exchange(client: socket.socket, server: socket.socket, address: IPv4Address) -> bool:
    """Whether a packet of the client reaches the server at *address*, and the response the client."""
    server.bind((str(address), 0))
    port = server.getsockname()[1]
    for _ in range(_PACKETS):
        client.sendto(b"?", (str(address), port))
        ready, _, _ = select.select([client, server], [], [], _RESEND_SECONDS)
        if server in ready:
            _, sender = server.recvfrom(16)
            server.sendto(b"!", sender)
            ready, _, _ = select.select([client], [], [], _RESEND_SECONDS)
        if client in ready:
            return True
    return False
