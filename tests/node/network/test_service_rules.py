"""The kernel forwards connections to cluster IPs: with real packets, in network namespaces of the test."""

import asyncio
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from launcher.node.network import namespaces, nftables
from launcher.node.network.bridge import Bridge
from launcher.node.network.forwarding_check import NOT_FORWARDED, why_services_not_forwarded
from launcher.node.network.nftables import NftablesError
from launcher.node.network.pod_network import TCP, UDP, Endpoint, ListenAddress
from launcher.node.network.service_forwarding import ServiceForwarding
from launcher.node.network.subnet import cluster_ips
from tests.pod_networks import require_isolation

pytestmark = pytest.mark.node

SUBNET = IPv4Network("10.200.0.0/20")
CLUSTER_IP = str(cluster_ips(SUBNET)[5])
WEB, WEB_UDP = ListenAddress(TCP, CLUSTER_IP, 80), ListenAddress(UDP, CLUSTER_IP, 80)
PODS = {name: SUBNET[number] for number, name in enumerate(("one", "two", "client"), 10)}
ENDPOINTS = [Endpoint(str(PODS[name]), 8080) for name in ("one", "two")]
MACHINE = ""
_CALL_SECONDS, _RESEND_SECONDS = 30.0, 0.5
_FORWARD_HOOK = 2


@pytest.fixture(params=["0", "1"], ids=["bridges pass no rules", "bridges pass the rules of nftables"])
def bridge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bridge]:
    """A bridge with the pods, in a network namespace that takes the place of a machine."""
    require_isolation()
    machine = tmp_path / "machine"
    namespaces.create(machine)
    try:
        with namespaces.inside(machine):
            setting = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
            if setting.exists():
                setting.write_text(request.param)
            elif request.param == "1":
                pytest.skip("the kernel has no br_netfilter")
            yield from a_bridge(tmp_path / "pods")
    finally:
        namespaces.remove(machine)


def a_bridge(directory: Path) -> Iterator[Bridge]:
    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
    bridge = Bridge("0123abcd", directory)
    bridge.create(SUBNET)
    try:
        assert bridge.open_services(SUBNET) == ""
        for name, address in PODS.items():
            bridge.attach(name, address, SUBNET)
        for name in ("one", "two"):
            serve(bridge, name)
        yield bridge
    finally:
        bridge.remove()


def serve(bridge: Bridge, name: str) -> None:
    """Answers at port 8080 of the pod with its name, until the socket of the test ends with the process."""
    tcp, udp = (
        bridge.open_socket(name, socket.AF_INET, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    )
    for each in (tcp, udp):
        each.bind(("0.0.0.0", 8080))
    tcp.listen()

    def serve_tcp() -> None:
        while True:
            connection, _ = tcp.accept()
            connection.sendall(name.encode())
            connection.close()

    def serve_udp() -> None:
        while True:
            _, client = udp.recvfrom(16)
            udp.sendto(name.encode(), client)

    for target in (serve_tcp, serve_udp):
        threading.Thread(target=target, daemon=True).start()


def a_client(bridge: Bridge, pod: str, address: ListenAddress) -> socket.socket:
    """A socket in the network of the pod that is connected to *address*. Raises ConnectionRefusedError."""
    kind = socket.SOCK_STREAM if address.protocol == TCP else socket.SOCK_DGRAM
    client = bridge.open_socket(pod, socket.AF_INET, kind)
    client.settimeout(_CALL_SECONDS)
    try:
        client.connect((address.host, address.port))
    except OSError:
        client.close()
        raise
    return client


def answer(client: socket.socket) -> str:
    """The name of the pod that answers. Raises ConnectionRefusedError."""
    if client.type == socket.SOCK_STREAM:
        return client.recv(16).decode()
    deadline = time.monotonic() + _CALL_SECONDS
    while time.monotonic() < deadline:
        client.send(b"?")
        # The kernel limits the rate of its responses to datagrams for closed ports.
        if select.select([client], [], [], _RESEND_SECONDS)[0]:
            return client.recv(16).decode()
    raise TimeoutError


def call(bridge: Bridge, pod: str, address: ListenAddress) -> str:
    """The name of the pod that answers; empty if the connection is refused."""
    try:
        with a_client(bridge, pod, address) as client:
            return answer(client)
    except ConnectionRefusedError:
        return ""


def callers(bridge: Bridge, address: ListenAddress, times: int = 24) -> dict[str, set[str]]:
    """The pods that answer a client pod, a pod that is itself an endpoint, and the machine."""
    return {
        pod or "machine": {call(bridge, pod, address) for _ in range(times)}
        for pod in ("client", "one", MACHINE)
    }


def everywhere(*names: str) -> dict[str, set[str]]:
    return {caller: {*names} for caller in ("client", "one", "machine")}


@pytest.mark.parametrize("address", [WEB, WEB_UDP], ids=lambda each: each.protocol)
def test_a_service_reaches_all_its_endpoints_from_pods_and_from_the_machine(
    bridge: Bridge, address: ListenAddress
) -> None:
    refused = callers(bridge, address, times=1)

    bridge.replace_services({address: ENDPOINTS}, [])

    assert refused == everywhere("")
    assert callers(bridge, address) == everywhere("one", "two")


def test_changes_concern_only_the_ports_that_they_name(bridge: Bridge) -> None:
    other = ListenAddress(TCP, str(cluster_ips(SUBNET)[6]), 443)
    bridge.replace_services({WEB: ENDPOINTS, WEB_UDP: ENDPOINTS, other: ENDPOINTS}, [])

    bridge.replace_services({WEB: ENDPOINTS[1:]}, [WEB_UDP])

    assert set(bridge.service_ports()) == {WEB, other}
    assert callers(bridge, WEB, times=4) == everywhere("two")
    assert callers(bridge, WEB_UDP, times=1) == everywhere("")
    assert callers(bridge, other) == everywhere("one", "two")


def test_the_rules_remain_when_they_are_opened_again_and_end_with_the_bridge(bridge: Bridge) -> None:
    bridge.replace_services({WEB: ENDPOINTS[:1]}, [])

    assert bridge.open_services(SUBNET) == ""

    assert callers(bridge, WEB, times=1) == everywhere("one")
    bridge.remove()
    assert nftables.tables() == set()


def test_a_client_that_keeps_its_port_reaches_another_pod_when_its_own_is_gone(bridge: Bridge) -> None:
    with a_client(bridge, "client", WEB_UDP) as client:
        with pytest.raises(ConnectionRefusedError):
            answer(client)
        bridge.replace_services({WEB_UDP: ENDPOINTS[:1]}, [])
        first = answer(client)

        bridge.replace_services({WEB_UDP: ENDPOINTS}, [])
        unchanged = {answer(client) for _ in range(8)}
        bridge.replace_services({WEB_UDP: ENDPOINTS[1:]}, [])

        assert (first, unchanged, answer(client)) == ("one", {"one"}, "two")


def test_a_transaction_is_applied_as_a_whole_or_not_at_all(bridge: Bridge) -> None:
    bridge.replace_services({WEB: ENDPOINTS[:1]}, [])

    with pytest.raises(OSError, match="No such file"):
        bridge.replace_services({WEB: ENDPOINTS[1:]}, [WEB_UDP])

    assert call(bridge, MACHINE, WEB) == "one"


# More bytes than a socket accepts by default.
def test_hundreds_of_services_are_set_in_one_transaction(bridge: Bridge) -> None:
    addresses = [ListenAddress(TCP, str(cluster_ips(SUBNET)[number]), 80) for number in range(10, 410)]

    bridge.replace_services(dict.fromkeys(addresses, ENDPOINTS), [])

    assert len(bridge.service_ports()) == 400
    assert call(bridge, "client", addresses[-1]) in ("one", "two")
    bridge.replace_services({}, addresses)
    assert bridge.service_ports() == []


def test_a_service_has_as_many_endpoints_as_a_bridge_has_pods(bridge: Bridge) -> None:
    many = [Endpoint(str(PODS["one"]), 8080)] * 1022 + [ENDPOINTS[1]]

    bridge.replace_services({WEB: many}, [])

    assert call(bridge, "client", WEB) in ("one", "two")


def test_the_check_detects_a_firewall_that_drops_forwarded_packets(bridge: Bridge) -> None:
    before = why_services_not_forwarded(bridge, SUBNET)
    drop = [nftables.verdict(nftables.DROP)]

    nftables.commit(
        [
            nftables.add("table", name="firewall"),
            nftables.base_chain("firewall", "forward", _FORWARD_HOOK, 0, "filter"),
            nftables.add("rule", table="firewall", chain="forward", expressions=drop),
        ]
    )

    assert before == ""
    assert why_services_not_forwarded(bridge, SUBNET) == NOT_FORWARDED
    assert bridge.service_ports() == []
    nftables.delete_table("firewall")


def test_rules_that_another_program_deleted_are_set_again(bridge: Bridge) -> None:
    with ThreadPoolExecutor(1) as thread:
        forwarding = ServiceForwarding(bridge, SUBNET, thread)

        async def change_after_flush() -> Sequence[ListenAddress]:
            await forwarding.replace({WEB: ENDPOINTS})
            await asyncio.to_thread(bridge.close_services)
            return list(await forwarding.replace({WEB: ENDPOINTS[:1]}))

        assert asyncio.run(change_after_flush()) == []

    assert callers(bridge, WEB, times=1) == everywhere("one")


def test_a_refused_message_names_the_reason(bridge: Bridge) -> None:
    assert bridge.service_ports() == []

    with pytest.raises(NftablesError, match="No such file or directory"):
        nftables.commit([nftables.delete("table", name="missing")])
