"""Which ports of Services the kernel forwards, and how many of them a change concerns."""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from launcher.node.network import service_forwarding
from launcher.node.network.pod_network import TCP, Endpoint, ListenAddress
from launcher.node.network.service_forwarding import ServiceForwarding

SUBNET = IPv4Network("10.200.0.0/20")
POD, OTHER_POD = Endpoint("10.200.0.2", 8080), Endpoint("10.200.0.3", 8080)


def port(number: int) -> ListenAddress:
    return ListenAddress(TCP, "10.200.16.1", number)


class FakeBridge:
    """Records the calls that change the rules; *unavailable* is the reason why there are none."""

    def __init__(self, existing: Sequence[ListenAddress] = (), unavailable: str = "") -> None:
        self.existing, self.unavailable = existing, unavailable
        self.calls: list[tuple[Mapping[ListenAddress, Sequence[Endpoint]], Sequence[ListenAddress]]] = []
        self.is_open = self.is_closed = False

    def open_services(self, subnet: IPv4Network) -> str:
        assert subnet == SUBNET
        self.is_open = True
        return self.unavailable

    def service_ports(self) -> Sequence[ListenAddress]:
        return self.existing

    def replace_services(
        self, ports: Mapping[ListenAddress, Sequence[Endpoint]], deleted: Sequence[ListenAddress]
    ) -> None:
        self.calls.append((ports, deleted))

    def close_services(self) -> None:
        self.is_closed = True

    def connect_outside(self, subnet: IPv4Network) -> str:
        raise NotImplementedError

    def attach(self, uid: str, address: IPv4Address, subnet: IPv4Network, process: int | None = None) -> None:
        raise NotImplementedError

    def detach(self, uid: str) -> None:
        raise NotImplementedError

    def namespace(self, uid: str) -> Path | None:
        raise NotImplementedError

    def open_socket(self, uid: str, family: int, kind: int) -> socket.socket:
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def without_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_forwarding, "why_services_not_forwarded", lambda *_: "")


def forwarded(
    bridge: FakeBridge, *changes: Mapping[ListenAddress, Sequence[Endpoint]]
) -> list[set[ListenAddress]]:
    """What each change leaves to the launcher."""

    async def replace_all() -> list[set[ListenAddress]]:
        with ThreadPoolExecutor(1) as thread:
            forwarding = ServiceForwarding(bridge, SUBNET, thread)
            return [set(await forwarding.replace(change)) for change in changes]

    return asyncio.run(replace_all())


def test_a_change_of_one_service_sets_only_its_ports() -> None:
    bridge = FakeBridge()
    before = {port(80): [POD], port(81): [POD], port(82): [POD]}

    left = forwarded(bridge, before, before, {port(80): [POD], port(81): [OTHER_POD]})

    assert left == [set(), set(), set()]
    assert bridge.calls == [(before, ()), ({port(81): [OTHER_POD]}, ()), ({}, [port(82)])]


def test_ports_of_an_earlier_launcher_are_replaced_or_deleted() -> None:
    bridge = FakeBridge(existing=[port(80), port(443)])

    forwarded(bridge, {port(80): [POD]})

    assert bridge.calls == [({port(80): [POD]}, ()), ({}, [port(443)])]


def test_without_services_only_ports_of_an_earlier_launcher_are_deleted() -> None:
    new, earlier = FakeBridge(), FakeBridge(existing=[port(80)])

    forwarded(new, {})
    forwarded(earlier, {})

    assert (new.is_open, new.calls) == (False, [])
    assert earlier.calls == [({}, [port(80)])]


def test_many_endpoints_are_set_in_several_transactions() -> None:
    bridge = FakeBridge()

    forwarded(bridge, {port(80): [POD] * 700, port(81): [POD] * 700, port(82): [POD]})

    assert [set(ports) for ports, _ in bridge.calls] == [{port(80)}, {port(81), port(82)}]


def test_the_launcher_forwards_to_pods_of_the_network_of_the_machine() -> None:
    bridge = FakeBridge()
    on_machine = Endpoint("127.0.0.1", 8080)

    left = forwarded(bridge, {port(80): [POD], port(81): [POD, on_machine]})

    assert left == [{port(81)}]
    assert bridge.calls == [({port(80): [POD]}, ())]


def test_the_launcher_forwards_everything_where_the_kernel_cannot() -> None:
    bridge = FakeBridge(unavailable="nftables: Protocol not supported")

    left = forwarded(bridge, {port(80): [POD]})

    assert left == [{port(80)}]
    assert (bridge.calls, bridge.is_closed) == ([], True)
