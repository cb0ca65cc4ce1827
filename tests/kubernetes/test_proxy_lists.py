"""Lists by name and node, and previews, through the API proxy in front of a real control plane."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.builders import a_framework
from tests.cluster.users import User
from tests.kubernetes.namespace_client import a_task_pod, frameworks_path
from tests.kubernetes.running_proxy import RawClient, RunningProxy

Json = dict[str, Any]
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def client(proxy: RunningProxy, user: User, namespace: str) -> RawClient:
    """A client of the proxy, after the creation of three Frameworks, of which one has a pod on a node."""
    client = proxy.client(user)
    for name in ("bert", "mnist-1", "mnist-2"):
        obj = a_framework(name=name, executionType="Create")
        assert client.request("POST", frameworks_path(namespace), obj).status == 201
    metadata = {"name": "mnist-2-worker-0", "labels": {"FC_FRAMEWORK_NAME": "mnist-2"}}
    pod = {"metadata": metadata, "spec": {**a_task_pod()["spec"], "nodeName": "a-node"}}
    assert client.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod).status == 201
    return client


def listed(client: RawClient, path: str, **headers: str) -> Json:
    response = client.request("GET", path, **headers)
    assert response.status == 200, response.body
    found: Json = response.json()
    return found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("nameContains=mnist", ["mnist-1", "mnist-2"]),
        ("nodeName=a-node", ["mnist-2"]),
        ("nameContains=bert&nodeName=a-node", []),
    ],
)
def test_a_list_is_limited_by_names_and_node(
    client: RawClient, namespace: str, query: str, expected: list[str]
) -> None:
    found = listed(client, f"{frameworks_path(namespace)}?{query}")
    table = listed(client, f"{frameworks_path(namespace)}?{query}", Accept=_TABLE)

    assert [item["metadata"]["name"] for item in found["items"]] == expected
    assert [row["object"]["metadata"]["name"] for row in table["rows"]] == expected


def test_pages_continue(client: RawClient, namespace: str) -> None:
    path = f"{frameworks_path(namespace)}?nameContains=mnist&limit=1"
    found, token = list[str](), ""
    for _ in range(4):
        page = listed(client, f"{path}&continue={quote(token)}")
        found += [item["metadata"]["name"] for item in page["items"]]
        if not (token := page["metadata"].get("continue", "")):
            break

    assert found == ["mnist-1", "mnist-2"]


def test_a_delete_with_these_options_deletes_nothing(client: RawClient, namespace: str) -> None:
    response = client.request("DELETE", f"{frameworks_path(namespace)}?nameContains=mnist")

    assert response.status == 400
    assert len(listed(client, frameworks_path(namespace))["items"]) == 3


def test_frameworks_are_selected_by_their_result(client: RawClient, namespace: str) -> None:
    field = "status.attemptStatus.completionStatus.type.name"

    assert listed(client, f"{frameworks_path(namespace)}?fieldSelector={field}%3DFailed")["items"] == []


def test_a_preview_needs_the_right_to_list(client: RawClient, namespace: str) -> None:
    obj = a_framework(name="previewed")
    path = frameworks_path(namespace).replace("/frameworks", "/previews")

    allowed = client.request("POST", path, obj)
    forbidden = client.request("POST", path.replace(namespace, "default"), obj)

    assert (allowed.status, forbidden.status) == (200, 403)
    assert allowed.json()["documents"][0]["errors"] == []
