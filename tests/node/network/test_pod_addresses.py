from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from launcher.core.errors import Unavailable
from launcher.node.network.pod_addresses import PodAddresses, has_isolated_pods

SUBNET = IPv4Network("10.128.16.0/29")


def addresses(directory: Path, subnet: IPv4Network = SUBNET) -> PodAddresses:
    return PodAddresses(directory, lambda: subnet)


def test_each_pod_has_an_address_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    pods = addresses(tmp_path)

    first, second = pods.allocate("a"), pods.allocate("b")

    assert (str(first), str(second)) == ("10.128.16.2", "10.128.16.3")
    assert pods.allocate("a") == pods.get("a") == first
    assert has_isolated_pods(tmp_path)


def test_the_next_launcher_finds_the_addresses_and_keeps_their_subnet(tmp_path: Path) -> None:
    first = addresses(tmp_path).allocate("a")

    pods = addresses(tmp_path, IPv4Network("10.200.0.0/20"))

    assert pods.subnet == SUBNET
    assert pods.get("a") == first
    assert pods.allocate("b") != first


def test_without_pods_the_subnet_is_chosen_again(tmp_path: Path) -> None:
    pods = addresses(tmp_path)
    pods.allocate("a")
    pods.release("a")

    assert addresses(tmp_path, IPv4Network("10.200.0.0/20")).subnet == IPv4Network("10.200.0.0/20")
    assert not has_isolated_pods(tmp_path)


def test_a_released_address_is_used_again_after_all_others(tmp_path: Path) -> None:
    pods = addresses(tmp_path)
    released = pods.allocate("a")
    pods.release("a")

    later = [pods.allocate(str(number)) for number in range(5)]

    assert later == [
        *map(IPv4Address, ("10.128.16.3", "10.128.16.4", "10.128.16.5", "10.128.16.6")),
        released,
    ]


def test_an_unreadable_address_is_ignored(tmp_path: Path) -> None:
    addresses(tmp_path).allocate("a")
    (tmp_path / "pods" / "b").write_text("x")

    assert addresses(tmp_path).pod_uids() == ["a"]


@pytest.mark.parametrize("uid", ["", "..", "a/b"])
def test_a_uid_that_is_no_file_name_has_no_address(tmp_path: Path, uid: str) -> None:
    with pytest.raises(Unavailable, match=r"metadata\.uid"):
        addresses(tmp_path).allocate(uid)


def test_pods_beyond_the_ports_of_a_bridge_wait(tmp_path: Path) -> None:
    pods = addresses(tmp_path, IPv4Network("10.128.16.0/20"))
    for number in range(1023):
        pods.allocate(str(number))

    with pytest.raises(Unavailable, match="1023"):
        pods.allocate("more")
