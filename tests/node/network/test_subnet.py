from ipaddress import IPv4Address, IPv4Network

import pytest

from launcher.node.network.subnet import NoFreeSubnet, choose_subnet, cluster_ips, gateway


def test_the_seed_selects_the_subnet() -> None:
    assert choose_subnet([], 0) == IPv4Network("10.128.0.0/20")
    assert choose_subnet([], 1) == IPv4Network("10.128.32.0/20")
    assert choose_subnet([], 1024) == choose_subnet([], 0)


def test_subnets_that_overlap_with_routes_of_the_machine_are_not_chosen() -> None:
    taken = [IPv4Network("10.128.0.0/24"), IPv4Network("10.128.48.0/20"), IPv4Network("10.128.64.53/32")]

    assert choose_subnet(taken, 0) == IPv4Network("10.128.96.0/20")


def test_a_default_route_takes_no_subnet() -> None:
    assert choose_subnet([IPv4Network("0.0.0.0/0")], 0) == IPv4Network("10.128.0.0/20")


def test_a_route_to_all_private_addresses_leaves_no_subnet() -> None:
    with pytest.raises(NoFreeSubnet, match=r"10\.128\.0\.0/9"):
        choose_subnet([IPv4Network("10.0.0.0/8")], 0)


def test_the_gateway_has_the_first_address() -> None:
    assert gateway(IPv4Network("10.128.16.0/20")) == IPv4Address("10.128.16.1")


def test_services_have_the_addresses_next_to_those_of_pods() -> None:
    assert cluster_ips(choose_subnet([], 1)) == IPv4Network("10.128.48.0/20")
