"""
The nftables rules of a pod network: pods reach the outside with the machine's address, and only pods reach pods.

Other machines could send packets for the pods, or for the gateway at which the launcher listens, to this one, which
forwards packets. Those are dropped.
"""

from ipaddress import IPv4Network
from typing import Any

from pyroute2 import NetlinkError
from pyroute2.netlink.nfnetlink.nftsocket import Cmp, Meta
from pyroute2.nftables.expressions import genex, masq, verdict
from pyroute2.nftables.main import NFTables

_DROP = 0
_ACCEPT = 1
#: Before the translation of addresses, so that the replies to pods are still addressed to the machine.
_RAW, _SOURCE_NAT = -300, 100
_NAME_BYTES, _ADDRESS_BYTES = 16, 4
#: Where an IPv4 packet has its addresses.
_NETWORK_HEADER, _SOURCE, _DESTINATION = 1, 12, 16


class NatUnavailable(Exception):
    """The rules cannot be set."""


def add_rules(table: str, bridge: str, subnet: IPv4Network) -> None:
    """Replaces the rules of *table*. Raises NatUnavailable."""
    nat = {"hook": "postrouting", "type": "nat", "priority": _SOURCE_NAT}
    guard = {"hook": "prerouting", "type": "filter", "priority": _RAW}
    outside = _interface_is_not(Meta.NFT_META_OIFNAME, bridge)
    foreign = [
        *_interface_is_not(Meta.NFT_META_IIFNAME, bridge),
        *_interface_is_not(Meta.NFT_META_IIFNAME, "lo"),
    ]
    with _nftables() as nft:
        nft.begin()
        # Added first: the deletion of a table that does not exist would fail.
        nft.table("add", name=table)
        nft.table("del", name=table)
        nft.table("add", name=table)
        nft.chain("add", table=table, name="nat", policy=_ACCEPT, **nat)
        nft.rule("add", table=table, chain="nat", expressions=(_is_in(subnet, _SOURCE), outside, masq()))
        nft.chain("add", table=table, name="guard", policy=_ACCEPT, **guard)
        nft.rule(
            "add",
            table=table,
            chain="guard",
            # The addresses of Services included.
            expressions=(_is_in(subnet.supernet(), _DESTINATION), foreign, verdict(code=_DROP)),
        )
        nft.commit()
        # The batch is not acknowledged; it is applied as a whole or not at all.
        if table not in _tables(nft):
            raise NatUnavailable("the kernel does not accept nftables rules")


def _interface_is_not(key: Any, name: str) -> list[Any]:
    """The expressions that compare the name of an interface."""
    padded = _value(name.encode().ljust(_NAME_BYTES, b"\0"))
    return [
        genex("meta", {"dreg": 1, "key": key}),
        genex("cmp", {"sreg": 1, "op": Cmp.NFT_CMP_NEQ, "data": padded}),
    ]


def _is_in(subnet: IPv4Network, offset: int) -> list[Any]:
    """The expressions that compare the address at *offset* of the packet."""
    mask = {"mask": _value(subnet.netmask.packed), "xor": _value(bytes(_ADDRESS_BYTES))}
    prefix = _value(subnet.network_address.packed)
    return [
        genex("payload", {"dreg": 1, "base": _NETWORK_HEADER, "offset": offset, "len": _ADDRESS_BYTES}),
        genex("bitwise", {"sreg": 1, "dreg": 1, "len": _ADDRESS_BYTES, **mask}),
        genex("cmp", {"sreg": 1, "op": Cmp.NFT_CMP_EQ, "data": prefix}),
    ]


def _value(data: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", data)]}


def remove_rules(table: str) -> None:
    """Removes *table*, if it exists."""
    try:
        with _nftables() as nft:
            if table in _tables(nft):
                nft.table("del", name=table)
    except NatUnavailable:
        return


def _tables(nft: Any) -> set[str]:
    try:
        return {message.get_attr("NFTA_TABLE_NAME") for message in nft.get_tables()}
    except NetlinkError as error:
        raise NatUnavailable(f"nftables: {error}") from error


def _nftables() -> Any:
    try:
        return NFTables(nfgen_family=2)
    except OSError as error:
        raise NatUnavailable(f"the kernel has no nftables: {error}") from error
