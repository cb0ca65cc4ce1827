"""Services of pods with networks of their own: ``--pod-network isolated``."""

from collections.abc import Callable

from tests.cluster.ports import Port, free_node_port
from tests.eventually import until
from tests.local.server import PODS, Server
from tests.local.test_names import SERVICES, wait_for_output
from tests.local.test_pod_network import isolated_by_root, isolated_by_user
from tests.local.test_services import (
    a_client_pod,
    a_server_pod,
    a_service,
    answer,
    ports,
    wait_for_answers,
)
from tests.pod_networks import bridge_of, left_behind

__all__ = ["isolated_by_root", "isolated_by_user", "ports"]  # fixtures


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
