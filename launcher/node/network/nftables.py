"""
Transactions of nftables by netlink, and the expressions of their rules.

A transaction is applied as a whole or not at all.
"""

import socket
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network
from typing import Any

from pyroute2 import NetlinkError
from pyroute2.netlink import NETLINK_NETFILTER
from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_NFTABLES, nfgen_msg, nftsocket
from pyroute2.netlink.nfnetlink.nftsocket import Cmp, Meta
from pyroute2.nftables.main import NFTables

from launcher.node.network import netlink
from launcher.node.network.netlink import APPEND, CREATE, Message

#: Verdicts.
DROP, ACCEPT, GOTO = 0, 1, -4
#: The register of verdicts, and registers of 4 bytes of which several make one value.
VERDICT_REGISTER, REGISTERS = 0, (8, 9, 10)
ADDRESS_BYTES, NAME_BYTES = 4, 16
#: Where an IPv4 packet has its addresses.
NETWORK_HEADER, SOURCE, DESTINATION = 1, 12, 16

_IPV4 = 2
_BEGIN, _END = 0x10, 0x11
_SO_SNDBUFFORCE = 32
_MAX_BATCH_BYTES = 16 << 20

Expression = dict[str, Any]


class NftablesError(OSError):
    """The kernel has no nftables, or does not accept the rules."""


def add(kind: str, **attributes: Any) -> Message:
    """Adds a ``table``, ``chain``, ``set``, or ``elements`` of one, unless it exists; a ``rule`` is always appended."""
    return _message(kind, "NEW", attributes, CREATE | (APPEND if kind == "rule" else 0))


def delete(kind: str, **attributes: Any) -> Message:
    """Deletes it; for ``rule``, all rules of the chain."""
    return _message(kind, "DEL", attributes, 0)


def _message(kind: str, verb: str, attributes: dict[str, Any], flags: int) -> Message:
    classes = {
        "table": nftsocket.nft_table_msg,
        "chain": nftsocket.nft_chain_msg,
        "rule": nftsocket.nft_rule_msg,
        "set": nftsocket.nft_set_msg,
        "elements": nftsocket.nft_set_elem_list_msg,
    }
    message = classes[kind]()
    message["attrs"] = [(message.name2nla(name), value) for name, value in attributes.items()]
    message["nfgen_family"] = _IPV4
    number = getattr(nftsocket, f"NFT_MSG_{verb}{'SETELEM' if kind == 'elements' else kind.upper()}")
    return Message(message, (NFNL_SUBSYS_NFTABLES << 8) | number, flags)


def base_chain(table: str, name: str, hook: int, priority: int, kind: str = "nat") -> Message:
    """Adds a chain that packets pass at *hook*, a number of the kernel, and are accepted by unless a rule matches."""
    attributes = {"attrs": [("NFTA_HOOK_HOOKNUM", hook), ("NFTA_HOOK_PRIORITY", priority)]}
    return add("chain", table=table, name=name, hook=attributes, policy=ACCEPT, type=kind)


def commit(messages: Sequence[Message]) -> None:
    """Applies all messages in one transaction. Raises NftablesError."""
    try:
        with netlink.open_socket(NETLINK_NETFILTER) as connection:
            try:
                connection.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _MAX_BATCH_BYTES)
            except PermissionError:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_BATCH_BYTES)
            last = messages[-1]._replace(is_acknowledged=True)
            netlink.execute(connection, [_bracket(_BEGIN), *messages[:-1], last, _bracket(_END)])
    except OSError as error:
        raise NftablesError(f"nftables: {error.strerror or error}") from error


def _bracket(kind: int) -> Message:
    content = nfgen_msg()
    content["res_id"] = NFNL_SUBSYS_NFTABLES
    content["nfgen_family"] = _IPV4
    return Message(content, kind)


def tables() -> set[str]:
    """The names of all tables. Raises NftablesError."""
    return {message.get_attr("NFTA_TABLE_NAME") for message in _dump("get_tables")}


def chains(table: str) -> set[str]:
    """The names of the chains of *table*. Raises NftablesError."""
    return {
        message.get_attr("NFTA_CHAIN_NAME")
        for message in _dump("get_chains")
        if message.get_attr("NFTA_CHAIN_TABLE") == table
    }


def _dump(name: str) -> Iterator[Any]:
    try:
        with NFTables(nfgen_family=_IPV4) as nft:
            yield from getattr(nft, name)()
    except (OSError, NetlinkError) as error:
        raise NftablesError(f"nftables: {error}") from error


def delete_table(name: str) -> None:
    """Deletes the table with everything in it, if it exists and the kernel has tables."""
    try:
        if name in tables():
            commit([delete("table", name=name)])
    except NftablesError:
        return


# Expressions


def expression(name: str, **attributes: Any) -> Expression:
    """An expression of the kernel."""
    prefix = {"numgen": "NG"}.get(name, name.upper())
    values = [(f"NFTA_{prefix}_{key.upper()}", value) for key, value in attributes.items()]
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": values})]}


def verdict(code: int) -> Expression:
    value = {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", code)]})]}
    return expression("immediate", dreg=VERDICT_REGISTER, data=value)


def data(value: bytes) -> dict[str, Any]:
    """A value that registers are compared with."""
    return {"attrs": [("NFTA_DATA_VALUE", value)]}


def interface_is(key: Meta, name: str, comparison: Cmp = Cmp.NFT_CMP_EQ) -> Iterable[Expression]:
    """The expressions that compare the name of an interface."""
    padded = data(name.encode().ljust(NAME_BYTES, b"\0"))
    return (
        expression("meta", dreg=REGISTERS[0], key=key),
        expression("cmp", sreg=REGISTERS[0], op=comparison, data=padded),
    )


def address_is_in(subnet: IPv4Network, offset: int) -> Iterable[Expression]:
    """The expressions that compare the address at *offset* of the packet."""
    load = {"base": NETWORK_HEADER, "offset": offset, "len": ADDRESS_BYTES}
    return expression("payload", dreg=REGISTERS[0], **load), *register_is_in(subnet)


def register_is_in(subnet: IPv4Network) -> Iterable[Expression]:
    """The expressions that compare the address in the first register."""
    mask = {"mask": data(subnet.netmask.packed), "xor": data(bytes(ADDRESS_BYTES))}
    return (
        expression("bitwise", sreg=REGISTERS[0], dreg=REGISTERS[0], len=ADDRESS_BYTES, **mask),
        expression("cmp", sreg=REGISTERS[0], op=Cmp.NFT_CMP_EQ, data=data(subnet.network_address.packed)),
    )
