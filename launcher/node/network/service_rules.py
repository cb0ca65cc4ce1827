"""
The nftables rules of the Services of isolated pods: the kernel forwards connections to cluster IPs to pods.

A map has the chain of every port of a Service that has endpoints. The chain selects one of them at random. The kernel
does so for the first packet of a connection, and translates the others in the same way. Other connections to cluster
IPs reach the machine, which refuses them.

Connections from pods get the address of the bridge: otherwise the reply of a pod would reach the client directly, from
an address to which it did not connect.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

from pyroute2.netlink.nfnetlink.nftsocket import Meta

from launcher.node.network import nftables
from launcher.node.network.netlink import Message
from launcher.node.network.nftables import REGISTERS, add, delete, expression
from launcher.node.network.pod_network import Endpoint, ListenAddress

#: The numbers of the protocols whose connections are forwarded.
PROTOCOLS: Mapping[str, int] = {"TCP": 6, "UDP": 17}

_PORTS_MAP = "ports"
#: The base chains: for connections of pods, of the machine, and for the addresses of clients.
_POD_CHAIN, _MACHINE_CHAIN, _CLIENT_CHAIN = "pods", "machine", "clients"
_BASE_CHAINS = {_POD_CHAIN, _MACHINE_CHAIN, _CLIENT_CHAIN}
#: The hooks of the kernel, and the order among the chains of a hook.
_PREROUTING, _OUTPUT, _POSTROUTING = 0, 3, 4
_DESTINATION_NAT, _SOURCE_NAT = -100, 100
_TRANSPORT_HEADER, _DESTINATION_PORT, _PORT_BYTES = 2, 2, 2
#: The original destination of a connection.
_CT_DESTINATION, _CT_ORIGINAL = 0x14, 0
_DNAT, _IPV4, _RANDOM = 1, 2, 1
#: The types of the kernel's maps: those of ``nft``, which displays them, with 6 bits each.
_INTEGER, _ADDRESS, _PROTOCOL, _PORT = 4, 7, 12, 13
_VERDICT_TYPE = 0xFFFFFF00
#: The longest list of a message is 64 KiB.
_MAX_ELEMENTS = 1000


def open_table(table: str, bridge: str, subnet: IPv4Network, cluster_ips: IPv4Network) -> None:
    """Adds what all Services share. Those of an earlier launcher remain. Raises NftablesError."""
    ports = {"key_type": (_ADDRESS << 12) | (_PROTOCOL << 6) | _PORT, "key_len": 12}
    messages = [
        add("table", name=table),
        add(
            "set", table=table, name=_PORTS_MAP, id=1, flags=["NFT_SET_MAP"], data_type=_VERDICT_TYPE, **ports
        ),
    ]
    rules = (
        (_POD_CHAIN, _PREROUTING, _DESTINATION_NAT, _select_port()),
        (_MACHINE_CHAIN, _OUTPUT, _DESTINATION_NAT, _select_port()),
        (_CLIENT_CHAIN, _POSTROUTING, _SOURCE_NAT, _masquerade(bridge, subnet, cluster_ips)),
    )
    for chain, hook, priority, expressions in rules:
        messages.append(nftables.base_chain(table, chain, hook, priority))
        messages.append(delete("rule", table=table, chain=chain))
        messages.append(add("rule", table=table, chain=chain, expressions=expressions))
    nftables.commit(messages)


def _select_port() -> list[nftables.Expression]:
    """Continues at the chain of the port to which the packet is addressed, if it has one."""
    address = {"base": nftables.NETWORK_HEADER, "offset": nftables.DESTINATION, "len": nftables.ADDRESS_BYTES}
    port = {"base": _TRANSPORT_HEADER, "offset": _DESTINATION_PORT, "len": _PORT_BYTES}
    return [
        expression("payload", dreg=REGISTERS[0], **address),
        expression("meta", dreg=REGISTERS[1], key=Meta.NFT_META_L4PROTO),
        expression("payload", dreg=REGISTERS[2], **port),
        expression("lookup", set=_PORTS_MAP, sreg=REGISTERS[0], dreg=nftables.VERDICT_REGISTER),
    ]


def _masquerade(bridge: str, subnet: IPv4Network, cluster_ips: IPv4Network) -> list[nftables.Expression]:
    return [
        *nftables.address_is_in(subnet, nftables.SOURCE),
        *nftables.interface_is(Meta.NFT_META_OIFNAME, bridge),
        expression("ct", dreg=REGISTERS[0], key=_CT_DESTINATION, direction=_CT_ORIGINAL),
        *nftables.register_is_in(cluster_ips),
        expression("masq"),
    ]


def forwarded_ports(table: str) -> set[ListenAddress]:
    """The ports that have a chain. Raises NftablesError."""
    return {_listen_address(chain) for chain in nftables.chains(table) - _BASE_CHAINS}


def replace(
    table: str, ports: Mapping[ListenAddress, Sequence[Endpoint]], deleted: Iterable[ListenAddress]
) -> None:
    """
    Sets the endpoints of *ports*, of which each has at least one, in one transaction. Others stay as they are.

    Those of *deleted* must have a chain. Raises NftablesError.
    """
    messages = [message for address in deleted for message in _delete_port(table, address)]
    for number, (address, endpoints) in enumerate(ports.items(), 1):
        messages.extend(_replace_port(table, address, endpoints, number))
    if messages:
        nftables.commit(messages)


def _delete_port(table: str, address: ListenAddress) -> Iterator[Message]:
    chain = _chain(address)
    yield delete("elements", table=table, set=_PORTS_MAP, elements=[_port_element(address)])
    yield delete("rule", table=table, chain=chain)
    yield delete("chain", table=table, name=chain)


def _replace_port(
    table: str, address: ListenAddress, endpoints: Sequence[Endpoint], number: int
) -> Iterator[Message]:
    """The *number* identifies the map of the endpoints, which ends with its rule, within the transaction."""
    chain, count = _chain(address), len(endpoints)
    types = {"key_type": _INTEGER, "key_len": 4, "data_type": (_ADDRESS << 6) | _PORT, "data_len": 8}
    flags = ["NFT_SET_ANONYMOUS", "NFT_SET_CONSTANT", "NFT_SET_MAP"]
    anonymous, size = "__map%d", {"attrs": [("NFTA_SET_DESC_SIZE", count)]}
    yield add("chain", table=table, name=chain)
    yield delete("rule", table=table, chain=chain)
    yield add("set", table=table, name=anonymous, id=number, flags=flags, desc=size, **types)
    for start in range(0, count, _MAX_ELEMENTS):
        part = list(enumerate(endpoints))[start : start + _MAX_ELEMENTS]
        elements = [_endpoint_element(index, endpoint) for index, endpoint in part]
        yield add("elements", table=table, set=anonymous, set_id=number, elements=elements)
    select = [
        expression("numgen", dreg=REGISTERS[0], modulus=count, type=_RANDOM, offset=0),
        expression("lookup", set=anonymous, set_id=number, sreg=REGISTERS[0], dreg=REGISTERS[0]),
        expression("nat", type=_DNAT, family=_IPV4, reg_addr_min=REGISTERS[0], reg_proto_min=REGISTERS[1]),
    ]
    yield add("rule", table=table, chain=chain, expressions=select)
    yield add("elements", table=table, set=_PORTS_MAP, elements=[_port_element(address, chain)])


def _endpoint_element(index: int, endpoint: Endpoint) -> nftables.Expression:
    value = IPv4Address(endpoint.address).packed + struct.pack("!Hxx", endpoint.port)
    key = ("NFTA_SET_ELEM_KEY", nftables.data(struct.pack("=I", index)))
    return {"attrs": [key, ("NFTA_SET_ELEM_DATA", nftables.data(value))]}


def _port_element(address: ListenAddress, chain: str = "") -> nftables.Expression:
    """The entry of the port in the map of all ports; without *chain*, its key only."""
    protocol = struct.pack("!Bxxx", PROTOCOLS[address.protocol])
    key = IPv4Address(address.host).packed + protocol + struct.pack("!Hxx", address.port)
    attributes = [("NFTA_SET_ELEM_KEY", nftables.data(key))]
    if chain:
        verdict = {"attrs": [("NFTA_VERDICT_CODE", nftables.GOTO), ("NFTA_VERDICT_CHAIN", chain)]}
        attributes.append(("NFTA_SET_ELEM_DATA", {"attrs": [("NFTA_DATA_VERDICT", verdict)]}))
    return {"attrs": attributes}


def _chain(address: ListenAddress) -> str:
    return f"{address.protocol}-{address.host}-{address.port}"


def _listen_address(chain: str) -> ListenAddress:
    protocol, host, port = chain.split("-")
    return ListenAddress(protocol, host, int(port))
