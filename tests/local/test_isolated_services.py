"""Services of pods with networks of their own: ``--pod-network isolated``."""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.ports import Port, free_node_port
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import PODS, Server
from tests.local.test_names import SERVICES, wait_for_output
from tests.local.test_services import (
    a_client_pod,
    a_server_pod,
    a_service,
    answer,
    ports,
    wait_for_answers,
)
from tests.pod_networks import bridge_of, left_behind, remove_network, require_isolation

__all__ = ["ports"]  # a fixture


@pytest.fixture(scope="module", autouse=True)
def _isolation() -> None:
    require_isolation()


@pytest.fixture
def isolated(serve: Serve) -> Iterator[Server]:
    server = serve("--pod-network", "isolated")
    yield server
    server.end()
    remove_network(server.data)


def test_a_service_reaches_pods_that_all_listen_on_the_same_port(
    isolated: Server, ports: Callable[[Port], int]
) -> None:
    node_port = ports(free_node_port())
    mapping = {"port": 80, "targetPort": "http", "nodePort": node_port}
    address = isolated.post(SERVICES, a_service(type="NodePort", ports=[mapping]))["spec"]["clusterIP"]
    assert answer(address, 80) == "", "no pod is ready"

    for name in ("one", "two"):
        isolated.post(PODS, a_server_pod(isolated, name, 8080))

    for host, port in ((address, 80), ("127.0.0.1", node_port)):
        wait_for_answers(host, port, {"one", "two"})
    isolated.delete(f"{PODS}/one")
    wait_for_answers(address, 80, {"two"})
    isolated.post(PODS, a_client_pod(isolated, "client", "web", "80"))
    wait_for_output(isolated, "client", [f"{address} two\n"])


def test_a_pod_reaches_itself_by_its_service(isolated: Server) -> None:
    address = isolated.post(SERVICES, a_service(ports=[{"port": 8080}]))["spec"]["clusterIP"]
    pod = a_server_pod(isolated, "one", 8080)
    client = a_client_pod(isolated, "", "web", "8080")["spec"]["containers"][0] | {"name": "client"}
    pod["spec"]["containers"].append(client)

    isolated.post(PODS, pod)

    def output() -> str:
        return isolated.curl(f"{PODS}/one/log?container=client")

    wait_for_answers(address, 8080, {"one"})
    until(lambda: output() == f"{address} one\n", "the pod has reached itself")


def test_services_continue_after_a_killed_launcher_and_leave_nothing_behind(isolated: Server) -> None:
    service = isolated.post(SERVICES, a_service(ports=[{"port": 80, "targetPort": 8080}]))
    address = service["spec"]["clusterIP"]
    isolated.post(PODS, a_server_pod(isolated, "one", 8080))
    wait_for_answers(address, 80, {"one"})

    isolated.kill()
    isolated.start()

    assert isolated.get(f"{SERVICES}/web")["spec"]["clusterIP"] == address
    wait_for_answers(address, 80, {"one"})
    isolated.delete(f"{PODS}/one")
    wait_for_answers(address, 80, {""})
    until(lambda: not bridge_of(isolated.data).pod_uids(), "the network of the pod is removed")
    isolated.stop()
    assert left_behind(isolated.data) == []
