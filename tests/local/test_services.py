"""Services of local mode answer: their cluster IPs, names and node ports reach the pods that they select."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.builders import Json
from tests.cluster.ports import Port, free_node_port, free_port
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import PODS, Server, loopback
from tests.local.test_names import SERVICES, ended_with, wait_for_output

#: Listens on a port of its own address, and answers with its name.
SERVER = """
import os, socket

with socket.create_server((os.environ["POD_IP"], int(os.environ["PORT"]))) as server:
    while True:
        connection, _ = server.accept()
        connection.sendall(os.environ["POD_NAME"].encode())
        connection.close()
"""
#: Calls a Service by its name until it answers.
CLIENT = """
import socket, sys, time

while True:
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
            answer = connection.recv(100).decode()
    except OSError:
        answer = ""
    if answer:
        break
    time.sleep(0.1)
print(socket.gethostbyname(sys.argv[1]), answer, flush=True)
time.sleep(3600)
"""


@pytest.fixture
def ports() -> Iterator[Callable[[Port], int]]:
    """Keeps ports reserved until the end of the test, and returns their numbers."""
    claims: list[Port] = []

    def keep(port: Port) -> int:
        claims.append(port)
        return port.number

    yield keep
    for claim in claims:
        claim.release()


def a_server_pod(server: Server, name: str, port: int, **spec: Any) -> Json:
    """A pod that Services with the selector ``app: web`` select; its port is named ``http``."""
    fields = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    container: Json = {
        "name": "main",
        "image": "none",
        "command": ["python3", "-c", SERVER],
        "env": [*env, {"name": "PORT", "value": str(port)}, ended_with(server)],
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
    }
    container |= spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def a_client_pod(server: Server, name: str, *arguments: str) -> Json:
    container = {
        "name": "main",
        "image": "none",
        "command": ["python3", "-c", CLIENT, *arguments],
        "env": [ended_with(server)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def a_service(name: str = "web", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, **spec},
    }


def answer(address: str, port: int) -> str:
    """The answer of the pod that a connection reaches; empty if it reaches none."""
    with suppress(OSError), socket.create_connection((address, port), timeout=5) as connection:
        return connection.recv(100).decode()
    return ""


def wait_for_answers(address: str, port: int, expected: set[str]) -> None:
    """Waits until connections reach all pods *expected*, and no others."""
    seen: set[str] = set()

    def probe() -> bool:
        found = answer(address, port)
        if found not in expected:
            seen.clear()
        else:
            seen.add(found)
        return seen == expected

    until(probe, f"{address}:{port} is answered by {expected}")


def on_node(server: Server, name: str, port: int, node: str) -> Json:
    return a_server_pod(server, name, port, nodeSelector={"kubernetes.io/hostname": node})


def two_nodes(serve: Serve) -> Server:
    return serve(f"--node=a,ip={loopback(2)}", f"--node=b,ip={loopback(3)}")


def test_a_service_reaches_its_ready_pods_from_the_machine_and_from_pods(
    serve: Serve, ports: Callable[[Port], int]
) -> None:
    server = two_nodes(serve)
    port, target, node_port = ports(free_port()), ports(free_port()), ports(free_node_port())
    mapping = {"port": port, "targetPort": "http", "nodePort": node_port}
    service = server.post(SERVICES, a_service(type="NodePort", ports=[mapping]))
    address = service["spec"]["clusterIP"]
    assert answer(address, port) == "", "no pod is ready"

    server.post(PODS, on_node(server, "one", target, "a"))
    server.post(PODS, on_node(server, "two", target, "b"))

    for host, number in ((address, port), ("127.0.0.1", node_port), (loopback(9), node_port)):
        wait_for_answers(host, number, {"one", "two"})
    server.delete(f"{PODS}/one")
    for host, number in ((address, port), ("127.0.0.1", node_port)):
        wait_for_answers(host, number, {"two"})
    server.post(PODS, a_client_pod(server, "client", "web.default.svc.cluster.local", str(port)))
    wait_for_output(server, "client", [f"{address} two\n"])
    server.delete(f"{SERVICES}/web")
    wait_for_answers(address, port, {""})


def test_the_address_and_the_forwarded_ports_outlive_the_launcher(
    serve: Serve, ports: Callable[[Port], int]
) -> None:
    server = two_nodes(serve)
    port, target = ports(free_port()), ports(free_port())
    service = server.post(SERVICES, a_service(ports=[{"port": port, "targetPort": target}]))
    server.post(PODS, on_node(server, "one", target, "a"))
    wait_for_answers(service["spec"]["clusterIP"], port, {"one"})

    server.kill()
    server.start()

    assert server.get(f"{SERVICES}/web")["spec"] == service["spec"]
    wait_for_answers(service["spec"]["clusterIP"], port, {"one"})


def test_a_pod_may_listen_on_the_port_of_its_service_on_all_addresses(
    serve: Serve, ports: Callable[[Port], int]
) -> None:
    server = serve(f"--node=a,ip={loopback(2)}")
    port, node_port = ports(free_port()), ports(free_node_port())
    mapping = {"port": port, "nodePort": node_port}
    service = server.post(SERVICES, a_service(type="NodePort", ports=[mapping]))
    pod = a_server_pod(server, "one", port)
    pod["spec"]["containers"][0]["env"][0] = {"name": "POD_IP", "value": "0.0.0.0"}
    # Ready before it listens.
    del pod["spec"]["containers"][0]["readinessProbe"]

    server.post(PODS, pod)
    server.post(PODS, a_client_pod(server, "client", "web", str(port)))

    wait_for_output(server, "client", [f"{loopback(2)} one\n"])
    for host, number in ((service["spec"]["clusterIP"], port), ("127.0.0.1", node_port)):
        wait_for_answers(host, number, {"one"})


def test_a_port_of_another_program_is_reported_and_forwarded_once_it_is_free(
    serve: Serve, ports: Callable[[Port], int]
) -> None:
    server = two_nodes(serve)
    target, node_port = ports(free_port()), ports(free_node_port())
    mapping = {"port": target, "nodePort": node_port}
    with socket.create_server(("127.0.0.1", node_port)):
        server.post(SERVICES, a_service(type="NodePort", ports=[mapping]))
        server.post(PODS, on_node(server, "one", target, "a"))

        def reported() -> Json | None:
            events = server.get("/api/v1/namespaces/default/events")["items"]
            return next((event for event in events if event["reason"] == "ListenFailed"), None)

        event = until(reported, "the failure is reported")

    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("Service", "web")
    assert f"0.0.0.0:{node_port}" in event["message"]
    wait_for_answers("127.0.0.1", node_port, {"one"})
