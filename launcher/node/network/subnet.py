"""The subnet of isolated pods. Pure: the routes and addresses of the machine are arguments."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

#: The subnets that are considered, each of 4094 addresses.
_RANGE, _PREFIX_LENGTH = IPv4Network("10.128.0.0/9"), 20


class NoFreeSubnet(Exception):
    """Every candidate overlaps with a route of this machine."""


def choose_subnet(taken: Iterable[IPv4Network], seed: int) -> IPv4Network:
    """
    The first candidate that does not overlap with *taken*, beginning at one that *seed* selects.

    Two launchers with different seeds begin at different candidates. Raises NoFreeSubnet.
    """
    others = [network for network in taken if network.prefixlen]
    candidates = list(_RANGE.subnets(new_prefix=_PREFIX_LENGTH))
    for offset in range(len(candidates)):
        candidate = candidates[(seed + offset) % len(candidates)]
        if not any(candidate.overlaps(other) for other in others):
            return candidate
    raise NoFreeSubnet(f"all subnets of {_RANGE} overlap with routes of this machine")


def gateway(subnet: IPv4Network) -> IPv4Address:
    """The address of the bridge, through which pods reach the machine and the outside."""
    return subnet.network_address + 1
