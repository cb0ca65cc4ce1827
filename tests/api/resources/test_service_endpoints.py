"""EndpointSlices and Endpoints can be read; they are computed from Services and pods."""

from typing import Any

import pytest

from launcher.store.interface import PODS, SERVICES
from tests.api.conftest import Api
from tests.builders import a_pod

SLICES = "/apis/discovery.k8s.io/v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def a_service(name: str, **spec: Any) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "clusterIP": "None", "ports": ports, **spec},
    }


@pytest.fixture
async def services(api: Api) -> Api:
    """A server with two Services that select two pods each, and one that selects none."""
    for app in ("web", "db"):
        await api.store.create(SERVICES, a_service(app))
        for index in (0, 1):
            pod = a_pod(f"{app}-{index}", metadata={"labels": {"app": app}})
            status = {"podIP": f"10.1.0.{index + 1}", "phase": "Running"}
            status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment]  # JSON
            created = await api.store.create(PODS, pod)
            await api.store.update_status(PODS, {**created, "status": status})
    await api.store.create(SERVICES, a_service("manual", selector=None))
    return api


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (f"{SLICES}/endpointslices", ["db-0", "web-0"]),
        (f"{SLICES}/namespaces/default/endpointslices", ["db-0", "web-0"]),
        (f"{SLICES}/namespaces/other/endpointslices", []),
        (f"{SLICES}/endpointslices?labelSelector=kubernetes.io/service-name=web", ["web-0"]),
        (f"{SLICES}/endpointslices?labelSelector=kubernetes.io/service-name%21=web", ["db-0"]),
        (f"{SLICES}/endpointslices?fieldSelector=metadata.name=db-0", ["db-0"]),
        ("/api/v1/endpoints", ["db", "web"]),
        ("/api/v1/namespaces/default/endpoints?fieldSelector=metadata.name=db", ["db"]),
    ],
)
async def test_lists_are_selected(services: Api, path: str, names: list[str]) -> None:
    listed = (await services.get(path)).json()

    assert [each["metadata"]["name"] for each in listed["items"]] == names
    assert listed["metadata"]["resourceVersion"] == str(services.store.version)


async def test_a_slice_has_the_addresses_of_the_pods_at_the_time_of_the_request(services: Api) -> None:
    path = f"{SLICES}/namespaces/default/endpointslices/web-0"

    before = (await services.get(path)).json()
    await services.store.delete(PODS, "default", "web-0")
    after = (await services.get(path)).json()

    assert [each["addresses"] for each in before["endpoints"]] == [["10.1.0.1"], ["10.1.0.2"]]
    assert [each["conditions"]["ready"] for each in after["endpoints"]] in ([False, True], [True])


async def test_kubectl_shows_a_table(services: Api) -> None:
    slices = (await services.get(f"{SLICES}/endpointslices", TABLE)).json()
    endpoints = (await services.get("/api/v1/namespaces/default/endpoints/web", TABLE)).json()

    assert [row["cells"][:4] for row in slices["rows"]] == [
        [name, "IPv4", "8080", "10.1.0.1,10.1.0.2"] for name in ("db-0", "web-0")
    ]
    assert [row["cells"][:2] for row in endpoints["rows"]] == [["web", "10.1.0.1:8080,10.1.0.2:8080"]]


async def test_a_table_shows_three_endpoints_and_the_number_of_others(services: Api) -> None:
    path = "/api/v1/namespaces/default/endpoints/all"
    await services.store.create(SERVICES, a_service("all", selector={"app": "web"}, ports=None))
    several = [{"name": str(port), "port": port, "targetPort": port} for port in (80, 81, 82)]
    await services.store.create(SERVICES, a_service("several", selector={"app": "web"}, ports=several))

    without_ports = (await services.get(path, TABLE)).json()
    with_ports = (await services.get(path.replace("all", "several"), TABLE)).json()

    assert without_ports["rows"][0]["cells"][1] == "10.1.0.1,10.1.0.2"
    assert with_ports["rows"][0]["cells"][1] == "10.1.0.1:80,10.1.0.1:81,10.1.0.1:82 + 3 more..."


@pytest.mark.parametrize("name", ["web", "web-1", "manual-0"])
async def test_what_does_not_exist_is_not_found(services: Api, name: str) -> None:
    (await services.get(f"{SLICES}/namespaces/default/endpointslices/{name}")).failure(404, "NotFound")


@pytest.mark.parametrize("path", [f"{SLICES}/endpointslices", "/api/v1/namespaces/default/endpoints"])
async def test_a_watch_is_not_allowed(services: Api, path: str) -> None:
    (await services.get(f"{path}?watch=true")).failure(405, "MethodNotAllowed")


async def test_the_resources_are_discovered(services: Api) -> None:
    core = (await services.get("/api/v1")).json()["resources"]
    slices = (await services.get(SLICES)).json()["resources"]

    assert [each["verbs"] for each in core if each["name"] == "endpoints"] == [["get", "list"]]
    assert [(each["name"], each["kind"], each["verbs"]) for each in slices] == [
        ("endpointslices", "EndpointSlice", ["get", "list"])
    ]
