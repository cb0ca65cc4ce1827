from collections.abc import AsyncIterator
from typing import Any

import pytest

from launcher.api.api_resources import API_RESOURCES
from launcher.api.openapi.api_discovery import ApiDiscovery
from tests.api.client import Client
from tests.api.servers import make_application, running

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
KUBECTL = f"{V2},{V2BETA1},application/json"
GROUP = "/apis/launcher.microsoft.com"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    discovery = ApiDiscovery([resource for resource in API_RESOURCES if not resource.is_alias])
    app = make_application()
    app.router.add_get("/api", discovery.api)
    app.router.add_get("/api/v1", discovery.core_version)
    app.router.add_get("/apis", discovery.apis)
    app.router.add_get("/apis/{group}", discovery.group)
    app.router.add_get("/apis/{group}/{version}", discovery.group_version)
    async with running(app) as server:
        yield server.client


def named(entries: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    (found,) = [entry for entry in entries if entry[key] == name]
    return found


async def test_check_001_aggregated_discovery_is_served_to_clients_that_accept_it(client: Client) -> None:
    response = await client.get("/apis", KUBECTL)

    assert response.status == 200
    assert response.headers["Content-Type"] == V2
    assert response.headers["ETag"].startswith('"')
    assert response.headers["Cache-Control"] == "public"
    assert response.headers["Vary"] == "Accept"
    reported = response.json()
    assert (reported["kind"], reported["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (item,) = [each for each in reported["items"] if each["metadata"]["name"] == "launcher.microsoft.com"]
    (version,) = item["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    frameworks = named(version["resources"], "resource", "frameworks")
    assert frameworks["scope"] == "Namespaced"
    assert frameworks["shortNames"] == ["fw"]
    assert frameworks["singularResource"] == "framework"
    kind = {"group": "launcher.microsoft.com", "version": "v1", "kind": "Framework"}
    assert frameworks["responseKind"] == kind
    assert named(frameworks["subresources"], "subresource", "status")["responseKind"] == kind


async def test_check_001_the_core_group_has_aggregated_discovery(client: Client) -> None:
    (item,) = (await client.get("/api", KUBECTL)).json()["items"]

    assert "name" not in item["metadata"]
    (version,) = item["versions"]
    assert named(version["resources"], "resource", "nodes")["scope"] == "Cluster"
    pods = named(version["resources"], "resource", "pods")
    assert {sub["subresource"] for sub in pods["subresources"]} == {
        "attach",
        "exec",
        "log",
        "portforward",
        "status",
    }


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        pytest.param(None, "APIGroupList", id="no Accept header"),
        pytest.param("*/*", "APIGroupList", id="anything"),
        pytest.param(f"application/json,{V2}", "APIGroupList", id="plain first"),
        pytest.param(f"application/json;q=0.5,{V2}", "APIGroupDiscoveryList", id="plain less wanted"),
        pytest.param(f"{V2};q=0,application/json", "APIGroupList", id="not wanted at all"),
        pytest.param(f"{V2BETA1},application/json", "APIGroupList", id="only an older form"),
        pytest.param("application/json;charset=utf-8", "APIGroupList", id="with a charset"),
    ],
)
async def test_check_001_the_order_of_accepted_types_decides(
    client: Client, accept: str | None, kind: str
) -> None:
    assert (await client.get("/apis", accept)).json()["kind"] == kind


@pytest.mark.parametrize("accept", ["text/html", V2BETA1, f"{V2};q=0", "application/json;q=0"])
async def test_unsupported_types_are_not_acceptable(client: Client, accept: str) -> None:
    (await client.get("/apis", accept)).failure(406, "NotAcceptable")


async def test_check_002_plain_discovery_lists_groups_and_resources(client: Client) -> None:
    groups = (await client.get("/apis")).json()
    group = (await client.get(GROUP)).json()
    resources = (await client.get(f"{GROUP}/v1")).json()

    version = {"groupVersion": "launcher.microsoft.com/v1", "version": "v1"}
    named_group = {"name": "launcher.microsoft.com", "versions": [version], "preferredVersion": version}
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    assert named(groups["groups"], "name", "launcher.microsoft.com") == named_group
    assert group == {"kind": "APIGroup", "apiVersion": "v1", **named_group}
    assert resources["kind"] == "APIResourceList"
    assert resources["groupVersion"] == "launcher.microsoft.com/v1"
    assert named(resources["resources"], "name", "frameworks") == {
        "name": "frameworks",
        "singularName": "framework",
        "namespaced": True,
        "kind": "Framework",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["fw"],
        "categories": ["all"],
    }
    status = named(resources["resources"], "name", "frameworks/status")
    assert (status["singularName"], status["kind"]) == ("", "Framework")
    assert status["verbs"] == ["get", "patch", "update"]
    scale = named(resources["resources"], "name", "frameworks/scale")
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


async def test_versions_are_listed_by_priority(client: Client) -> None:
    versions = ["v1", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1"]

    plain = (await client.get("/apis/kubeflow.org")).json()
    (item,) = [
        each
        for each in (await client.get("/apis", KUBECTL)).json()["items"]
        if each["metadata"]["name"] == "kubeflow.org"
    ]

    assert [each["version"] for each in plain["versions"]] == versions
    assert plain["preferredVersion"] == {"groupVersion": "kubeflow.org/v1", "version": "v1"}
    assert [each["version"] for each in item["versions"]] == versions
    for each in item["versions"]:
        tfjobs = named(each["resources"], "resource", "tfjobs")
        assert tfjobs["responseKind"] == {
            "group": "kubeflow.org",
            "version": each["version"],
            "kind": "TFJob",
        }
        assert {sub["subresource"] for sub in tfjobs["subresources"]} == {"scale", "status"}


async def test_check_002_the_core_group_has_plain_discovery(client: Client) -> None:
    assert (await client.get("/api")).json()["versions"] == ["v1"]
    reported = (await client.get("/api/v1")).json()

    assert reported["groupVersion"] == "v1"
    names = {entry["name"] for entry in reported["resources"]}
    kinds = {"configmaps", "events", "namespaces", "nodes", "pods", "secrets", "services"}
    assert names == kinds | {"pods/attach", "pods/exec", "pods/log", "pods/portforward", "pods/status"}


@pytest.mark.parametrize("path", ["/apis/other.example", f"{GROUP}/v2", "/apis/other.example/v1"])
async def test_other_groups_and_versions_are_not_found(client: Client, path: str) -> None:
    (await client.get(path)).failure(404, "NotFound")


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_check_094_an_unchanged_document_is_not_sent_again(client: Client, path: str) -> None:
    etag = (await client.get(path, KUBECTL)).headers["ETag"]

    same = await client.get(path, KUBECTL, If_None_Match=etag)
    other = await client.get(path, KUBECTL, If_None_Match='"other"')

    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", etag)
    assert other.status == 200


async def test_json_is_indented_for_interactive_clients(client: Client) -> None:
    assert b'\n  "kind"' in (await client.get("/apis", User_Agent="curl/8")).body
