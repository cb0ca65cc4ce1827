"""EndpointSlices and Endpoints are those that the controllers of a cluster would write."""

from typing import Any

import pytest

from launcher.node.services.endpoint_slices import endpoint_slices, endpoints_object
from launcher.store.interface import Object

READY = {"type": "Ready", "status": "True"}


def a_service(**spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "creationTimestamp": "2023-11-14T22:12:20Z",
        "labels": {"team": "a"},
    }
    return {
        "metadata": metadata,
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ports": ports} | spec,
    }


def a_pod(number: int = 1, *, port: int = 0, deleted: bool = False, **status: Any) -> Object:
    metadata = {
        "name": f"pod-{number}",
        "namespace": "default",
        "uid": f"uid-{number}",
        "labels": {"app": "web"},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    ports = [{"name": "named", "containerPort": port}] if port else []
    address = f"10.1.{number // 250}.{number % 250}"
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node", "containers": [{"name": "main", "ports": ports}]},
        "status": {"podIP": address, "phase": "Running", "conditions": [READY]} | status,
    }


def test_a_slice_has_the_pods_and_belongs_to_the_service() -> None:
    (found,) = endpoint_slices(a_service(), [a_pod()])

    metadata = found["metadata"]
    assert (found["apiVersion"], found["kind"], found["addressType"]) == (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "IPv4",
    )
    assert (metadata["name"], metadata["namespace"]) == ("web-0", "default")
    assert metadata["labels"]["kubernetes.io/service-name"] == "web"
    assert metadata["labels"]["team"] == "a"
    assert [(owner["kind"], owner["uid"]) for owner in metadata["ownerReferences"]] == [("Service", "u")]
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert found["endpoints"] == [
        {
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "node",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "pod-1", "uid": "uid-1"},
        }
    ]


@pytest.mark.parametrize(
    ("pod", "spec", "conditions"),
    [
        pytest.param(a_pod(conditions=[]), {}, (False, False, False), id="a pod that is not ready"),
        pytest.param(a_pod(deleted=True), {}, (False, True, True), id="a pod that ends"),
        pytest.param(
            a_pod(conditions=[]),
            {"publishNotReadyAddresses": True},
            (True, False, False),
            id="a Service that publishes all pods",
        ),
        pytest.param(a_pod(), {"clusterIP": "None"}, (True, True, False), id="a headless Service"),
    ],
)
def test_the_conditions_of_an_endpoint(
    pod: Object, spec: dict[str, Any], conditions: tuple[bool, bool, bool]
) -> None:
    (found,) = endpoint_slices(a_service(**spec), [pod])

    assert tuple(found["endpoints"][0]["conditions"].values()) == conditions


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(podIP=""), id="without an address"),
        pytest.param(a_pod(phase="Succeeded"), id="that has terminated"),
    ],
)
def test_a_service_without_endpoints_has_an_empty_slice(pod: Object) -> None:
    (found,) = endpoint_slices(a_service(), [pod])

    assert (found["endpoints"], found["ports"]) == ([], [])


def test_a_slice_has_at_most_100_endpoints_and_endpoints_have_1000_addresses() -> None:
    pods = [a_pod(number) for number in range(1, 1102)]

    slices = endpoint_slices(a_service(), pods)
    (endpoints,) = endpoints_object(a_service(), pods)

    assert [len(each["endpoints"]) for each in slices] == [100] * 11 + [1]
    assert [each["metadata"]["name"] for each in slices] == [f"web-{index}" for index in range(12)]
    assert len({each["metadata"]["uid"] for each in slices}) == 12
    assert [len(subset["addresses"]) for subset in endpoints["subsets"]] == [1000]
    assert endpoints["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}


def test_pods_with_other_numbers_of_a_named_port_are_in_another_slice() -> None:
    service = a_service(ports=[{"port": 80, "targetPort": "named"}])
    pods = [a_pod(1, port=8080), a_pod(2, port=9090), a_pod(3, port=8080)]

    slices = endpoint_slices(service, pods)

    assert [([port["port"] for port in each["ports"]], len(each["endpoints"])) for each in slices] == [
        ([8080], 2),
        ([9090], 1),
    ]


def test_endpoints_separate_pods_that_are_not_ready() -> None:
    (found,) = endpoints_object(a_service(), [a_pod(1), a_pod(2, conditions=[])])

    (subset,) = found["subsets"]
    assert (found["kind"], found["metadata"]["name"]) == ("Endpoints", "web")
    assert [each["ip"] for each in subset["addresses"]] == ["10.1.0.1"]
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["10.1.0.2"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


@pytest.mark.parametrize(
    "spec", [{"selector": {}}, {"type": "ExternalName"}], ids=["no selector", "an external name"]
)
def test_a_service_that_selects_no_pods_has_no_endpoints(spec: dict[str, Any]) -> None:
    assert (*endpoint_slices(a_service(**spec), [a_pod()]), *endpoints_object(a_service(**spec), [])) == ()
