import pytest

from tests.pod_networks import require_isolation, run_in_own_network

pytestmark = pytest.mark.node

#: Runs in a network of its own: the rules of this machine do not matter, and are not changed.
_CHECK = """
import sys
from ipaddress import IPv4Network
from pathlib import Path
from pyroute2 import IPRoute
from pyroute2.nftables.main import NFTables
from launcher.node.network.bridge import Bridge
from launcher.node.network.forwarding_check import why_not_forwarded
from launcher.node.network.namespaces import NAMESPACES_DIRECTORY

with NFTables(nfgen_family=2) as nft:
    nft.table("add", name="firewall")
    forward = {"hook": "forward", "type": "filter", "priority": 0, "policy": int(sys.argv[1])}
    nft.chain("add", table="firewall", name="forward", **forward)
bridge, subnet = Bridge("01234567", NAMESPACES_DIRECTORY / "01234567"), IPv4Network("10.128.0.0/20")
bridge.create(subnet)
assert bridge.connect_outside(subnet) == ""
print(why_not_forwarded(bridge, subnet, IPv4Network("10.128.32.0/20")), end="")
bridge.remove()
with IPRoute() as ip:
    left = [link.get_attr("IFLA_IFNAME") for link in ip.get_links()]
assert not [name for name in left if name.startswith("fl")], left
assert not list(NAMESPACES_DIRECTORY.iterdir())
"""


@pytest.mark.parametrize(
    ("policy", "reason"),
    [pytest.param(1, "", id="accept"), pytest.param(0, "firewall", id="drop")],
)
def test_packets_that_a_firewall_drops_are_noticed(policy: int, reason: str) -> None:
    require_isolation()

    result = run_in_own_network(_CHECK, str(policy))

    assert result.returncode == 0, result.stderr
    assert bool(result.stdout) is bool(reason)
    assert reason in result.stdout
