"""
The nftables rules of a pod network: pods reach the outside with the machine's address, and only pods reach pods.

Other machines could send packets for the pods, or for the gateway at which the launcher listens, to this one, which
forwards packets. Those are dropped.
"""

from ipaddress import IPv4Network

from pyroute2.netlink.nfnetlink.nftsocket import Cmp, Meta

from launcher.node.network import nftables
from launcher.node.network.nftables import add, base_chain, delete, expression, interface_is

#: The hooks of the kernel.
_PREROUTING, _POSTROUTING = 0, 4
#: Before the translation of addresses, so that the replies to pods are still addressed to the machine.
_RAW, _SOURCE_NAT = -300, 100


def add_rules(table: str, bridge: str, subnet: IPv4Network) -> None:
    """Replaces the rules of *table*. Raises NftablesError."""
    outside = interface_is(Meta.NFT_META_OIFNAME, bridge, Cmp.NFT_CMP_NEQ)
    masquerade = [
        *nftables.address_is_in(subnet, nftables.SOURCE),
        *outside,
        expression("masq"),
    ]
    drop = [
        # The addresses of Services included.
        *nftables.address_is_in(subnet.supernet(), nftables.DESTINATION),
        *interface_is(Meta.NFT_META_IIFNAME, bridge, Cmp.NFT_CMP_NEQ),
        *interface_is(Meta.NFT_META_IIFNAME, "lo", Cmp.NFT_CMP_NEQ),
        nftables.verdict(nftables.DROP),
    ]
    nftables.commit(
        [
            # Added first: the deletion of a table that does not exist would fail.
            add("table", name=table),
            delete("table", name=table),
            add("table", name=table),
            base_chain(table, "nat", _POSTROUTING, _SOURCE_NAT),
            add("rule", table=table, chain="nat", expressions=masquerade),
            base_chain(table, "guard", _PREROUTING, _RAW, "filter"),
            add("rule", table=table, chain="guard", expressions=drop),
        ]
    )
