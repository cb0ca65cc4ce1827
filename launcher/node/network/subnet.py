"""The subnets of isolated pods and of their Services. Pure: the routes and addresses of the machine are arguments."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

#: The networks that are considered: one half of each is for pods, 4094 addresses, the other one for Services.
_RANGE, _PREFIX_LENGTH = IPv4Network("10.128.0.0/9"), 19


class NoFreeSubnet(Exception):
    """Every candidate overlaps with a route of this machine."""


def choose_subnet(taken: Iterable[IPv4Network], seed: int) -> IPv4Network:
    """
    The subnet of pods in the first candidate that does not overlap with *taken*, beginning at one that *seed* selects.

    Two launchers with different seeds begin at different candidates. Raises NoFreeSubnet.
    """
    others = [network for network in taken if network.prefixlen]
    candidates = list(_RANGE.subnets(new_prefix=_PREFIX_LENGTH))
    for offset in range(len(candidates)):
        candidate = candidates[(seed + offset) % len(candidates)]
        if not any(candidate.overlaps(other) for other in others):
            return next(candidate.subnets())
    raise NoFreeSubnet(f"all subnets of {_RANGE} overlap with routes of this machine")


def gateway(subnet: IPv4Network) -> IPv4Address:
    """The address of the bridge, through which pods reach the machine and the outside."""
    return subnet.network_address + 1


def cluster_ips(subnet: IPv4Network) -> IPv4Network:
    """The addresses of Services: the other half of the candidate."""
    pods, services = subnet.supernet().subnets()
    return services if subnet == pods else pods
