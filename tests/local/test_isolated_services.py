"""Services of pods with networks of their own: ``--pod-network isolated``."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders import Json
from tests.cluster.ports import Port, free_node_port
from tests.eventually import until
from tests.local.server import PODS, Server
from tests.local.test_names import SERVICES, wait_for_output
from tests.local.test_pod_network import isolated, isolated_by_root, isolated_by_user
from tests.local.test_services import (
    a_client_pod,
    a_server_pod,
    a_service,
    answer,
    ports,
    wait_for_answers,
)
from tests.pod_networks import bridge_of, left_behind

pytestmark = pytest.mark.node

__all__ = ["isolated", "isolated_by_root", "isolated_by_user", "ports"]  # fixtures

#: Answers datagrams with its name.
UDP_SERVER = """
import os, socket

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind((os.environ["POD_IP"], int(os.environ["PORT"])))
    while True:
        _, client = server.recvfrom(100)
        server.sendto(os.environ["POD_NAME"].encode(), client)
"""
#: Calls a Service once the file /peers/address exists, and writes the answer to the file /peers/answer.
LATE_CLIENT = """
import socket, time
from pathlib import Path

file = Path("/peers/address")
while not file.exists():
    time.sleep(0.1)
host, port = file.read_text().split()
try:
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        answer = connection.recv(100)
except OSError as error:
    answer = str(error).encode()
Path("/peers/new").write_bytes(answer)
Path("/peers/new").rename("/peers/answer")
time.sleep(3600)
"""


def test_a_service_reaches_pods_that_all_listen_on_the_same_port(
    isolated_by_root: Server, ports: Callable[[Port], int]
) -> None:
    node_port = ports(free_node_port())
    mapping = {"port": 80, "targetPort": "http", "nodePort": node_port}
    address = isolated_by_root.post(SERVICES, a_service(type="NodePort", ports=[mapping]))["spec"][
        "clusterIP"
    ]
    assert answer(address, 80) == "", "no pod is ready"

    for name in ("one", "two"):
        isolated_by_root.post(PODS, a_server_pod(isolated_by_root, name, 8080))

    for host, port in ((address, 80), ("127.0.0.1", node_port)):
        wait_for_answers(host, port, {"one", "two"})
    isolated_by_root.delete(f"{PODS}/one")
    wait_for_answers(address, 80, {"two"})
    isolated_by_root.post(PODS, a_client_pod(isolated_by_root, "client", "web", "80"))
    wait_for_output(isolated_by_root, "client", [f"{address} two\n"])


def test_a_service_of_a_normal_user_reaches_pods(
    isolated_by_user: Server, ports: Callable[[Port], int]
) -> None:
    server, node_port = isolated_by_user, ports(free_node_port())
    mapping = {"port": 80, "targetPort": "http", "nodePort": node_port}
    address = server.post(SERVICES, a_service(type="NodePort", ports=[mapping]))["spec"]["clusterIP"]

    for name in ("one", "two"):
        server.post(PODS, a_server_pod(server, name, 8080))

    wait_for_answers("127.0.0.1", node_port, {"one", "two"})
    server.delete(f"{PODS}/one")
    wait_for_answers("127.0.0.1", node_port, {"two"})
    server.post(PODS, a_client_pod(server, "client", "web", "80"))
    wait_for_output(server, "client", [f"{address} two\n"])


def test_a_pod_reaches_itself_by_its_service(isolated_by_root: Server) -> None:
    address = isolated_by_root.post(SERVICES, a_service(ports=[{"port": 8080}]))["spec"]["clusterIP"]
    pod = a_server_pod(isolated_by_root, "one", 8080)
    client = a_client_pod(isolated_by_root, "", "web", "8080")["spec"]["containers"][0] | {"name": "client"}
    pod["spec"]["containers"].append(client)

    isolated_by_root.post(PODS, pod)

    def output() -> str:
        return isolated_by_root.curl(f"{PODS}/one/log?container=client")

    wait_for_answers(address, 8080, {"one"})
    until(lambda: output() == f"{address} one\n", "the pod has reached itself")


def test_services_continue_after_a_killed_launcher_and_leave_nothing_behind(isolated_by_root: Server) -> None:
    service = isolated_by_root.post(SERVICES, a_service(ports=[{"port": 80, "targetPort": 8080}]))
    address = service["spec"]["clusterIP"]
    isolated_by_root.post(PODS, a_server_pod(isolated_by_root, "one", 8080))
    wait_for_answers(address, 80, {"one"})

    isolated_by_root.kill()
    isolated_by_root.start()

    assert isolated_by_root.get(f"{SERVICES}/web")["spec"]["clusterIP"] == address
    wait_for_answers(address, 80, {"one"})
    isolated_by_root.delete(f"{PODS}/one")
    wait_for_answers(address, 80, {""})
    until(lambda: not bridge_of(isolated_by_root.data).pod_uids(), "the network of the pod is removed")
    isolated_by_root.stop()
    assert left_behind(isolated_by_root.data) == []


def test_services_answer_pods_while_the_launcher_is_down(isolated: Server, tmp_path: Path) -> None:
    address = isolated.post(SERVICES, a_service(ports=[{"port": 80, "targetPort": 8080}]))["spec"][
        "clusterIP"
    ]
    peers = tmp_path / "peers"
    peers.mkdir()
    late = a_client_pod(isolated, "late")
    late["spec"]["containers"][0] |= {
        "command": ["python3", "-c", LATE_CLIENT],
        "volumeMounts": [{"name": "peers", "mountPath": "/peers"}],
    }
    late["spec"]["volumes"] = [{"name": "peers", "hostPath": {"path": str(peers)}}]
    for pod in (a_server_pod(isolated, "one", 8080), late, a_client_pod(isolated, "client", "web", "80")):
        isolated.post(PODS, pod)
    wait_for_output(isolated, "client", [f"{address} one\n"])
    isolated.runs("late")

    isolated.kill()
    (tmp_path / "address").write_text(f"{address} 80")
    (tmp_path / "address").rename(peers / "address")

    until(lambda: (peers / "answer").exists(), "the client has an answer")
    assert (peers / "answer").read_text() == "one"
    isolated.start()


def test_services_answer_the_machine_while_the_launcher_is_down(isolated_by_root: Server) -> None:
    service = isolated_by_root.post(SERVICES, a_service(ports=[{"port": 80, "targetPort": 8080}]))
    address = service["spec"]["clusterIP"]
    isolated_by_root.post(PODS, a_server_pod(isolated_by_root, "one", 8080))
    wait_for_answers(address, 80, {"one"})

    isolated_by_root.kill()

    assert answer(address, 80) == "one"
    isolated_by_root.start()


def a_udp_pod(server: Server, name: str) -> Json:
    pod = a_server_pod(server, name, 5353)
    container = pod["spec"]["containers"][0]
    container["command"] = ["python3", "-c", UDP_SERVER]
    container["ports"][0]["protocol"] = "UDP"
    del container["readinessProbe"]
    return pod


def test_datagrams_reach_the_pods_of_a_service(
    isolated_by_root: Server, ports: Callable[[Port], int]
) -> None:
    server, node_port = isolated_by_root, ports(free_node_port())
    mapping = {"port": 53, "targetPort": "http", "protocol": "UDP", "nodePort": node_port}
    address = server.post(SERVICES, a_service(type="NodePort", ports=[mapping]))["spec"]["clusterIP"]
    server.post(PODS, a_udp_pod(server, "one"))

    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to_cluster_ip,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to_node_port,
    ):
        to_cluster_ip.connect((address, 53))
        to_node_port.connect(("127.0.0.1", node_port))
        clients = (to_cluster_ip, to_node_port)
        for client in clients:
            wait_for_datagram(client, "one")

        server.post(PODS, a_udp_pod(server, "two"))
        server.runs("two")
        server.delete(f"{PODS}/one")

        # The clients keep their ports.
        for client in clients:
            wait_for_datagram(client, "two")


def wait_for_datagram(client: socket.socket, expected: str) -> None:
    client.settimeout(1)

    def received() -> bool:
        with suppress(OSError):
            client.send(b"?")
            return client.recv(100).decode() == expected
        return False

    until(received, f"{expected} answers")
