"""
The UDP flows that the kernel remembers: it forwards their datagrams as the first one, whatever the rules are since.

A flow has no end, so datagrams of a client that continues to send would be lost when the pod is gone.
"""

import socket
from collections.abc import Collection, Mapping
from contextlib import suppress

from pyroute2 import Conntrack, NetlinkError
from pyroute2.netlink.nfnetlink.nfctsocket import NFCTAttrTuple

from launcher.node.network.pod_network import UDP, Endpoint, ListenAddress


def delete_stale_flows(ports: Mapping[ListenAddress, Collection[Endpoint]]) -> None:
    """
    Deletes the flows to UDP *ports* that do not reach one of the endpoints of the port.

    Without effect where the kernel does not list flows: there, a flow ends when its client is silent for a while.
    """
    if not any(address.protocol == UDP for address in ports):
        return
    try:
        with Conntrack() as conntrack:
            for address, endpoints in ports.items():
                if address.protocol == UDP:
                    _delete_stale(conntrack, address, endpoints)
    except (OSError, NetlinkError):
        return


def _delete_stale(conntrack: Conntrack, address: ListenAddress, endpoints: Collection[Endpoint]) -> None:
    # The kernel filters, since 5.8; an older one lists all flows.
    to_port = NFCTAttrTuple(daddr=address.host, proto=socket.IPPROTO_UDP, dport=address.port)
    for entry in list(conntrack.dump_entries(tuple_orig=to_port)):
        target = Endpoint(entry.tuple_reply.saddr, entry.tuple_reply.sport)
        # What the left side omits matches everything.
        if to_port == entry.tuple_orig and target not in endpoints:
            with suppress(NetlinkError):  # it ended meanwhile
                conntrack.entry("del", tuple_orig=entry.tuple_orig)
