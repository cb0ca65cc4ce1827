"""The changes of interfaces, addresses and routes that connect a pod, as netlink messages that are sent together."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from launcher.node.network import netlink
from launcher.node.network.netlink import CREATE, EXCLUSIVE, REPLACE, Message

#: The numbers of the kernel: types of messages, the state of an interface, and kinds of routes.
_NEW_LINK, _DELETE_LINK, _NEW_ADDRESS, _NEW_ROUTE = 16, 17, 20, 24
_UP = 0x1
_MAIN_TABLE, _STATIC_PROTOCOL, _UNICAST_ROUTE = 254, 4, 1


@dataclass(frozen=True, slots=True)
class BridgePort:
    """How an interface is connected: the index of its bridge, and its group and MTU."""

    bridge: int
    group: int
    mtu: int


def veth_pair(name: str, port: BridgePort, peer: str, namespace: int) -> Message:
    """Creates the interface *name*, up and connected to a bridge, and its *peer* in *namespace*, an open file."""
    peer_link = {"attrs": [("IFLA_IFNAME", peer), ("IFLA_MTU", port.mtu), ("IFLA_NET_NS_FD", namespace)]}
    kind = [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer_link)]})]
    link = [("IFLA_IFNAME", name), ("IFLA_MTU", port.mtu), ("IFLA_MASTER", port.bridge)]
    attributes = [*link, ("IFLA_GROUP", port.group), ("IFLA_LINKINFO", {"attrs": kind})]
    fields = {"flags": _UP, "change": _UP, "attrs": attributes}
    return _message(ifinfmsg(), _NEW_LINK, CREATE | EXCLUSIVE, fields)


def hairpin_mode(index: int) -> Message:
    """Lets the bridge send packets back to the interface from which they came."""
    port = ("IFLA_INFO_SLAVE_DATA", {"attrs": [("IFLA_BRPORT_MODE", 1)]})
    kind = ("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_SLAVE_KIND", "bridge"), port]})
    return _message(ifinfmsg(), _NEW_LINK, 0, {"index": index, "attrs": [kind]})


def link_up(index: int) -> Message:
    """Sets the interface up."""
    return _message(ifinfmsg(), _NEW_LINK, 0, {"index": index, "flags": _UP, "change": _UP})


def link_deletion(index: int) -> Message:
    """Deletes the interface, and its peer."""
    return _message(ifinfmsg(), _DELETE_LINK, 0, {"index": index})


def group_deletion(group: int) -> Message:
    """Deletes all interfaces of the group, and their peers."""
    return _message(ifinfmsg(), _DELETE_LINK, 0, {"attrs": [("IFLA_GROUP", group)]})


def interface_address(index: int, address: IPv4Address, prefix_length: int) -> Message:
    """Adds the address to the interface, unless it has it."""
    attributes = [("IFA_LOCAL", str(address)), ("IFA_ADDRESS", str(address))]
    fields = {"family": socket.AF_INET, "index": index, "prefixlen": prefix_length, "attrs": attributes}
    return _message(ifaddrmsg(), _NEW_ADDRESS, CREATE | REPLACE, fields)


def default_route(gateway: IPv4Address) -> Message:
    """Sets the route to everything that no other route reaches."""
    kind = {"table": _MAIN_TABLE, "proto": _STATIC_PROTOCOL, "type": _UNICAST_ROUTE}
    fields = {"family": socket.AF_INET, **kind, "attrs": [("RTA_GATEWAY", str(gateway))]}
    return _message(rtmsg(), _NEW_ROUTE, CREATE | REPLACE, fields)


def execute(*messages: Message) -> None:
    """Executes the changes in order, in the network namespace of this thread. Raises OSError for the first error."""
    with netlink.open_socket(socket.NETLINK_ROUTE) as connection:
        netlink.execute(connection, [*messages[:-1], messages[-1]._replace(is_acknowledged=True)])


def _message(content: Any, kind: int, flags: int, fields: dict[str, Any]) -> Message:
    content.update(fields)
    return Message(content, kind, flags)
