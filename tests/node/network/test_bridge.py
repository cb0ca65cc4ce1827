import pytest

from tests.pod_networks import require_isolation, run_in_own_network

pytestmark = pytest.mark.node

#: Runs in a network of its own, whose only way to the outside has a small MTU.
_ATTACH = """
from ipaddress import IPv4Network
from pyroute2 import IPRoute
from launcher.node.network import namespaces
from launcher.node.network.bridge import Bridge

with IPRoute() as ip:
    ip.link("add", ifname="outside", kind="bridge", mtu=1280)
    outside = ip.link_lookup(ifname="outside")[0]
    ip.addr("add", index=outside, address="192.0.2.2", prefixlen=24)
    ip.link("set", index=outside, state="up")
    ip.route("add", dst="default", gateway="192.0.2.1")
bridge, subnet = Bridge("01234567", namespaces.NAMESPACES_DIRECTORY / "01234567"), IPv4Network("10.128.0.0/20")
bridge.create(subnet)
# The second one has the address of the first one, whose interface the kernel may not have removed yet.
for uid in ("first", "second"):
    for _ in ("once", "again"):
        bridge.attach(uid, subnet[2], subnet)
    with namespaces.inside(bridge.namespace(uid)), IPRoute() as ip:
        pod = ip.get_links(ip.link_lookup(ifname="eth0")[0])[0]
        addresses = [address.get_attr("IFA_ADDRESS") for address in ip.get_addr(family=2)]
        routes = [route.get_attr("RTA_GATEWAY") for route in ip.get_default_routes(family=2)]
    print(pod.get_attr("IFLA_MTU"), pod["state"], *sorted(addresses), *routes)
    bridge.detach(uid)
bridge.remove()
with IPRoute() as ip:
    print([name for link in ip.get_links() if (name := link.get_attr("IFLA_IFNAME")).startswith("fl")])
"""


def test_attached_pods_have_an_address_a_route_and_the_mtu_of_the_way_outside() -> None:
    require_isolation()

    result = run_in_own_network(_ATTACH)

    assert result.returncode == 0, result.stderr
    first, second, left = result.stdout.splitlines()
    assert first == second == "1280 up 10.128.0.2 127.0.0.1 10.128.0.1"
    assert left == "[]"
