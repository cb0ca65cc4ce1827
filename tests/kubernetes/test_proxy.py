"""The API proxy in front of a real control plane responds as the cluster does, and validates Frameworks."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import a_framework
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.conftest import ALL_ON_FRAMEWORKS
from tests.kubernetes.namespace_client import GROUP, frameworks_path
from tests.kubernetes.running_proxy import RawResponse, RunningProxy, running_proxy
from tests.local.test_seeds import manual

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_rbac_authorizes_callers(proxy: RunningProxy, user: User, namespace: str) -> None:
    client = proxy.client(user)

    created = client.request("POST", frameworks_path(namespace), a_framework(name="mine"))
    other_namespace = client.request("POST", frameworks_path("default"), a_framework(name="mine"))
    all_namespaces = client.request("GET", f"/apis/{GROUP}/v1/frameworks")
    secrets = client.request("GET", f"/api/v1/namespaces/{namespace}/secrets")

    assert created.status == 201, created.body
    assert created.json()["spec"]["executionType"] == "Start"
    for failure in (other_namespace, all_namespaces, secrets):
        assert failure.status == 403
        assert f'User "{user.name}" cannot' in failure.json()["message"]


def test_requests_without_credentials_are_rejected(proxy: RunningProxy, namespace: str) -> None:
    anonymous = proxy.client(None)

    for path in (frameworks_path(namespace), "/version", "/api", "/openapi/v2"):
        response = anonymous.request("GET", path)
        assert (response.status, response.json()["reason"]) == (401, "Unauthorized")


def test_a_wrong_token_is_rejected_by_the_cluster(proxy: RunningProxy, namespace: str) -> None:
    wrong = {"Authorization": "Bearer wrong"}

    by_proxy = proxy.client(None).request("GET", frameworks_path(namespace), **wrong)
    by_cluster = proxy.direct_client(None).request("GET", frameworks_path(namespace), **wrong)

    assert by_proxy.status == 401
    assert by_proxy.comparable() == by_cluster.comparable()


@pytest.fixture
def stored(proxy: RunningProxy, user: User, namespace: str) -> dict[str, Any]:
    """A Framework that is not started."""
    framework = a_framework(name="stored", executionType="Create")
    response = proxy.direct_client(user).request("POST", frameworks_path(namespace), framework)
    assert response.status == 201, response.body
    created: dict[str, Any] = response.json()
    return created


def test_responses_equal_those_of_the_cluster(
    proxy: RunningProxy, user: User, namespace: str, stored: dict[str, Any]
) -> None:
    collection, version = frameworks_path(namespace), stored["metadata"]["resourceVersion"]
    exactly = f"resourceVersion={version}&resourceVersionMatch=Exact"
    stale = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "1"}}
    invalid = {"spec": {"taskRoles": [{"name": "worker", "taskNumber": -1}]}}
    requests: list[tuple[int, str, str, Any, Mapping[str, str]]] = [
        (200, "GET", f"{collection}/stored", None, {}),
        (200, "GET", f"{collection}/stored?pretty=true", None, {}),
        (200, "GET", f"{collection}/stored", None, {"Accept": "application/yaml"}),
        (200, "GET", f"{collection}/stored", None, {"Accept": _TABLE}),
        (200, "HEAD", f"{collection}/stored", None, {}),
        (200, "GET", f"{collection}?{exactly}&limit=1", None, {}),
        (200, "GET", f"{collection}?{exactly}", None, {"Accept": _TABLE}),
        (
            200,
            "GET",
            "/apis",
            None,
            {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
        ),
        (200, "GET", f"/apis/{GROUP}/v1", None, {}),
        (200, "GET", "/openapi/v3", None, {}),
        (200, "GET", "/openapi/v2", None, {"Accept-Encoding": "gzip"}),
        (200, "GET", "/version", None, {}),
        (404, "GET", f"{collection}/missing", None, {}),
        (404, "GET", collection.replace("/v1/", "/v9/"), None, {}),
        (403, "GET", f"/apis/{GROUP}/v1/frameworks", None, {}),
        (403, "GET", "/api/v1/nodes", None, {}),
        (400, "GET", f"{collection}?limit=many", None, {}),
        (409, "POST", collection, a_framework(name="stored"), {}),
        (409, "PUT", f"{collection}/stored", stale, {}),
        (422, "PATCH", f"{collection}/stored", invalid, {"Content-Type": "application/merge-patch+json"}),
        (
            415,
            "PATCH",
            f"{collection}/stored",
            invalid,
            {"Content-Type": "application/strategic-merge-patch+json"},
        ),
        (403, "POST", f"/apis/{GROUP}/v1/frameworks", a_framework(name="x"), {}),
    ]

    for status, method, path, body, headers in requests:
        options = {name.replace("-", "_"): value for name, value in headers.items()}
        request_directly = partial(proxy.direct_client(user).request, method, path, body, **options)
        request_by_proxy = partial(proxy.client(user).request, method, path, body, **options)
        by_proxy, by_cluster = until(
            partial(_both_responses, request_directly, request_by_proxy), f"{path} does not change"
        )
        assert by_proxy.status == status, (method, path, by_proxy)
        assert by_proxy.comparable() == by_cluster.comparable(), (method, path)


def _both_responses(
    request_directly: Callable[[], RawResponse], request_by_proxy: Callable[[], RawResponse]
) -> tuple[RawResponse, RawResponse] | None:
    """Both responses to a request that changes nothing; None if that of the cluster has changed, such as an age."""
    before, by_proxy, after = request_directly(), request_by_proxy(), request_directly()
    return (by_proxy, after) if before.comparable() == after.comparable() else None


def test_a_watch_has_the_lines_of_the_cluster(
    proxy: RunningProxy, user: User, namespace: str, stored: dict[str, Any]
) -> None:
    version = stored["metadata"]["resourceVersion"]
    watch = f"{frameworks_path(namespace)}?watch=1&resourceVersion={version}&timeoutSeconds=30"
    change = {"metadata": {"labels": {"changed": "yes"}}}

    with (
        proxy.client(user).open("GET", watch) as by_proxy,
        proxy.direct_client(user).open("GET", watch) as by_cluster,
    ):
        proxy.direct_client(user).request(
            "PATCH", frameworks_path(namespace, "stored"), change, "application/merge-patch+json"
        )
        proxy.direct_client(user).request("DELETE", frameworks_path(namespace, "stored"))
        lines = [by_proxy.readline() for _ in range(2)]
        expected = [by_cluster.readline() for _ in range(2)]

    assert lines == expected
    assert [orjson.loads(line)["type"] for line in lines] == ["MODIFIED", "DELETED"]


def test_the_deprecated_watch_of_one_framework_has_the_lines_of_the_cluster(
    proxy: RunningProxy, user: User, namespace: str, stored: dict[str, Any]
) -> None:
    version = stored["metadata"]["resourceVersion"]
    path = frameworks_path(namespace, "stored")
    watch = f"{path.replace('/v1/', '/v1/watch/')}?resourceVersion={version}&timeoutSeconds=30"

    with proxy.client(user).open("GET", watch) as by_proxy:
        proxy.direct_client(user).request("DELETE", path)
        line = orjson.loads(by_proxy.readline())

    assert (line["type"], line["object"]["metadata"]["name"]) == ("DELETED", "stored")


def test_yaml_by_curl_is_defaulted_and_validated(
    proxy: RunningProxy, user: User, namespace: str, tmp_path: Path
) -> None:
    sample = next(sample for sample in manual() if " olumeMounts" in sample)
    (tmp_path / "framework.yaml").write_text(sample)
    token = f"Authorization: Bearer {user.token}"
    command = ["curl", "--silent", "--include", "--cacert", proxy.ca, "--max-time", str(TIMEOUT_SECONDS)]
    body_options = [
        "-H",
        "Content-Type: application/yaml",
        "--data-binary",
        f"@{tmp_path / 'framework.yaml'}",
    ]

    done = subprocess.run(
        [*map(str, command), "-H", token, *body_options, proxy.url + frameworks_path(namespace)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS * 2,
    )

    head, _, body = done.stdout.partition("\n\n")
    assert " 201 " in head.splitlines()[0], done.stdout
    assert 'Warning: 299 - "unknown field' in head
    assert "olumeMounts" in head
    assert "volumeMounts" in head
    stored = proxy.direct_client(user).request(
        "GET", f"{frameworks_path(namespace)}/{orjson.loads(body)['metadata']['name']}"
    )
    assert "olumeMounts" in stored.body.decode()


def test_invalid_objects_are_rejected_with_the_field(proxy: RunningProxy, user: User, namespace: str) -> None:
    invalid = a_framework(name="wrong")
    invalid["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"] = []

    response = proxy.client(user).request("POST", frameworks_path(namespace), invalid)

    assert (response.status, response.json()["reason"]) == (422, "Invalid")
    assert "containers" in response.json()["details"]["causes"][0]["field"]


def test_names_can_be_generated_and_dry_runs_store_nothing(
    proxy: RunningProxy, user: User, namespace: str
) -> None:
    unnamed = a_framework(name="x")
    unnamed["metadata"] = {"generateName": "run-"}

    dry_run = proxy.client(user).request("POST", f"{frameworks_path(namespace)}?dryRun=All", unnamed)
    created = proxy.client(user).request("POST", frameworks_path(namespace), unnamed)

    assert (dry_run.status, created.status) == (201, 201)
    listed = proxy.direct_client(user).request("GET", frameworks_path(namespace)).json()
    assert [item["metadata"]["name"] for item in listed["items"]] == [created.json()["metadata"]["name"]]


# Client certificates.


@pytest.fixture(scope="module")
def certificate_proxy(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningProxy, User]]:
    """A proxy that accepts client certificates of the cluster's CA, and the launcher's user."""
    launcher = cluster.new_user()
    cluster.grant(launcher, [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}])
    directory = tmp_path_factory.mktemp("proxy")
    with running_proxy(cluster, launcher, directory, client_certificates=True) as proxy:
        yield proxy, launcher


def test_client_certificates_are_authorized_by_the_cluster(
    certificate_proxy: tuple[RunningProxy, User], cluster: ControlPlane, namespace: str
) -> None:
    proxy, _ = certificate_proxy
    alice = cluster.certified_user("alice", "ml")
    cluster.grant(alice, ALL_ON_FRAMEWORKS, namespace=namespace)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    identity = (
        proxy.client(alice)
        .request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        .json()
    )
    created = proxy.client(alice).request("POST", frameworks_path(namespace), a_framework(name="hers"))
    other_namespace = proxy.client(alice).request("GET", frameworks_path("default"))

    assert identity["status"]["userInfo"]["username"] == "alice"
    assert identity["status"]["userInfo"]["groups"] == ["ml", "system:authenticated"]
    assert created.status == 201
    assert other_namespace.status == 403
    assert 'User "alice" cannot list' in other_namespace.json()["message"]


def test_the_proxy_grants_no_additional_permissions(
    certificate_proxy: tuple[RunningProxy, User], cluster: ControlPlane
) -> None:
    proxy, launcher = certificate_proxy
    root = cluster.certified_user("root", "system:masters")

    masters = proxy.client(root).request("GET", "/api/v1/secrets")
    impersonated = proxy.client(cluster.certified_user("mallory")).request(
        "GET", "/api/v1/secrets", Impersonate_User="admin"
    )
    token = proxy.client(launcher).request("GET", "/api/v1/secrets")

    assert (masters.status, impersonated.status, token.status) == (403, 400, 403)
    assert "API server directly" in masters.json()["message"]
