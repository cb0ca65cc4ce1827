"""The endpoints of Services."""

from typing import Any

import pytest

from launcher.node.network.pod_network import Endpoint
from launcher.node.services.endpoints import (
    ServicePort,
    is_bound_by_pods,
    proxied_service,
    selected_pod,
    service_ports,
)
from launcher.store.interface import Object

READY = {"type": "Ready", "status": "True"}


def a_service(**spec: Any) -> Object:
    common = {
        "selector": {"app": "web"},
        "clusterIP": "10.0.0.1",
        "ports": [{"port": 80, "targetPort": 8080}],
    }
    metadata = {"name": "web", "namespace": "default", "uid": "u"}
    return {"metadata": metadata, "spec": common | spec}


def a_pod(address: str = "10.1.0.1", *ports: Object, **status: Any) -> Object:
    return {
        "metadata": {"name": "a", "labels": {"app": "web", "x": "y"}},
        "spec": {"containers": [{"name": "main", "ports": list(ports)}]},
        "status": {"podIP": address, "phase": "Running", "conditions": [READY]} | status,
    }


def endpoints(service: Object, *pods: Object) -> list[list[tuple[str, int]]]:
    """The endpoints of each port of the Service."""
    proxied = proxied_service(service)
    assert proxied is not None
    selected = [each for pod in pods if (each := selected_pod(pod)) is not None]
    return [
        [(each.address, each.port) for each in port.endpoints] for port in service_ports(proxied, selected)
    ]


def test_every_ready_pod_is_an_endpoint_once() -> None:
    pods = [a_pod("10.1.0.2"), a_pod("10.1.0.1"), a_pod("10.1.0.1")]

    assert endpoints(a_service(), *pods) == [[("10.1.0.1", 8080), ("10.1.0.2", 8080)]]


@pytest.mark.parametrize(
    ("pod", "service", "count"),
    [
        pytest.param(a_pod(conditions=[]), a_service(), 0, id="a pod that is not ready"),
        pytest.param(
            a_pod(conditions=[]), a_service(publishNotReadyAddresses=True), 1, id="unless the Service has it"
        ),
        pytest.param(a_pod(podIP=None), a_service(), 0, id="a pod without an address"),
        pytest.param(a_pod(phase="Succeeded"), a_service(), 0, id="a pod that has terminated"),
        pytest.param(a_pod(), a_service(selector={"app": "db"}), 0, id="a pod with other labels"),
    ],
)
def test_other_pods_are_no_endpoints(pod: Object, service: Object, count: int) -> None:
    assert [len(each) for each in endpoints(service, pod)] == [count]


def test_a_pod_that_is_being_deleted_is_no_endpoint() -> None:
    pod = a_pod()
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert endpoints(a_service(), pod) == [[]]


def test_a_target_port_is_a_number_or_the_name_of_a_port_of_each_pod() -> None:
    ports = [
        {"port": 80, "name": "a", "targetPort": "http"},
        {"port": 53, "name": "b", "targetPort": "dns", "protocol": "UDP"},
        {"port": 81, "name": "c"},
    ]
    pods = [
        a_pod(
            "10.1.0.1",
            {"name": "http", "containerPort": 8080},
            {"name": "dns", "containerPort": 5353, "protocol": "UDP"},
        ),
        a_pod("10.1.0.2", {"name": "http", "containerPort": 9090}, {"name": "dns", "containerPort": 5353}),
    ]

    assert endpoints(a_service(ports=ports), *pods) == [
        [("10.1.0.1", 8080), ("10.1.0.2", 9090)],
        [("10.1.0.1", 5353)],
        [("10.1.0.1", 81), ("10.1.0.2", 81)],
    ]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None"}, id="headless"),
        pytest.param({"clusterIP": ""}, id="without an address"),
        pytest.param({"selector": {}}, id="without a selector"),
    ],
)
def test_services_that_are_not_forwarded(spec: Object) -> None:
    assert proxied_service(a_service(**spec)) is None


@pytest.mark.parametrize(
    "spec",
    [{"ports": [{"port": "80"}]}, {"ports": [{"port": 80, "nodePort": "x"}]}, {"selector": {"a": 1}}],
    ids=["a port", "a node port", "a selector"],
)
def test_a_malformed_service_is_an_error(spec: Object) -> None:
    with pytest.raises(TypeError):
        proxied_service(a_service(**spec))


@pytest.mark.parametrize(
    ("address", "target", "bound"),
    [
        pytest.param("127.96.0.1", 80, True, id="the same port in the network of the machine"),
        pytest.param("127.96.0.1", 8080, False, id="another port"),
        pytest.param("10.0.0.1", 80, False, id="a network of its own"),
    ],
)
def test_pods_may_listen_on_the_address_of_their_service(address: str, target: int, bound: bool) -> None:
    port = ServicePort(("default", "web"), "TCP", address, 80, 0, (Endpoint("127.0.0.1", target),))

    assert is_bound_by_pods(port) is bound
