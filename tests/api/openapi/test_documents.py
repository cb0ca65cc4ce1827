from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from launcher.api.api_resources import API_RESOURCES
from launcher.api.openapi.documents import OpenApi
from launcher.job_kinds.job_kind import JOB_KINDS
from schemas.generate.pod_descriptions import UNDESCRIBED
from tests.api.client import Client
from tests.api.servers import make_application, running

ACCEPT_OF_OLD_KUBECTL = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OURS = "apis/launcher.microsoft.com/v1"
ITEM = "/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks/{name}"
FRAMEWORK = "com.microsoft.launcher.v1.Framework"
KIND = {"group": "launcher.microsoft.com", "version": "v1", "kind": "Framework"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    openapi = OpenApi(
        [resource for resource in API_RESOURCES if not resource.is_alias], lambda: 1_767_225_600.0
    )
    app = make_application()
    app.router.add_get("/openapi/v2", openapi.v2)
    app.router.add_get("/openapi/v3", openapi.v3)
    app.router.add_get("/openapi/v3/{path:.+}", openapi.v3_document)
    async with running(app) as server:
        yield server.client


async def document(client: Client, path: str = OURS) -> Any:
    return (await client.get(f"/openapi/v3/{path}")).json()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def without_description(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Returns the fields without a description that are defined in place."""
    for name, field in schema.get("properties", {}).items():
        if "description" not in field:
            yield f"{path}.{name}"
        yield from without_description(field, f"{path}.{name}")
    if "items" in schema:
        yield from without_description(schema["items"], path)


async def test_check_003_the_index_lists_a_document_for_each_group(client: Client) -> None:
    index = (await client.get("/openapi/v3")).json()["paths"]

    jobs = {f"apis/{kind.api_version}" for foreign in JOB_KINDS for kind in foreign.kinds}
    assert set(index) == {"api/v1", OURS} | jobs
    response = await client.get(index[OURS]["serverRelativeURL"])
    assert response.status == 200
    assert response.headers["Content-Type"] == "application/json"
    patch = response.json()["paths"][ITEM]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == KIND
    assert patch["x-kubernetes-action"] == "patch"
    parameters = {parameter["name"] for parameter in patch["parameters"]}
    assert parameters == {"dryRun", "fieldManager", "fieldValidation", "force"}
    assert set(patch["requestBody"]["content"]) == {
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    }


async def test_check_003_the_framework_is_found_by_its_kind(client: Client) -> None:
    schema = (await document(client))["components"]["schemas"][FRAMEWORK]

    assert schema["x-kubernetes-group-version-kind"] == [KIND]
    roles = schema["properties"]["spec"]["properties"]["taskRoles"]
    assert roles["x-kubernetes-list-type"] == "map"
    assert roles["x-kubernetes-list-map-keys"] == ["name"]


async def test_every_field_of_a_framework_has_a_description(client: Client) -> None:
    schema = (await document(client))["components"]["schemas"][FRAMEWORK]

    assert "description" in schema
    for name in ("apiVersion", "kind", "metadata", "status"):
        assert "description" in schema["properties"][name]
    for name in ("metadata", "spec", "status"):
        assert list(without_description(schema["properties"][name], name)) == []


async def test_every_field_of_a_pod_has_a_description(client: Client) -> None:
    schemas = (await document(client, "api/v1"))["components"]["schemas"]

    undescribed = [
        bare
        for name, schema in schemas.items()
        if name.rpartition(".")[2] not in UNDESCRIBED
        for bare in without_description(schema, name)
    ]
    assert undescribed == []


async def test_the_status_is_described_and_preserves_unknown_fields(client: Client) -> None:
    status = (await document(client))["components"]["schemas"][FRAMEWORK]["properties"]["status"]

    assert status["x-kubernetes-preserve-unknown-fields"] is True
    condition = status["properties"]["conditions"]["items"]["properties"]["type"]
    assert condition == {
        "type": "string",
        "nullable": True,
        "description": "Started, Running, Succeeded, Failed, Suspended, Valid or GangPlaced.",
    }
    # It is defined only in the Framework.
    assert not [name for name in (await document(client))["components"]["schemas"] if "Status" in name]


@pytest.mark.parametrize("path", [OURS, "api/v1"])
async def test_every_reference_has_a_definition(client: Client, path: str) -> None:
    reported = await document(client, path)

    known = {f"#/components/schemas/{name}" for name in reported["components"]["schemas"]}
    assert set(references(reported)) <= known


async def test_every_reference_of_the_swagger_document_has_a_definition(client: Client) -> None:
    reported = (await client.get("/openapi/v2")).json()

    assert set(references(reported)) <= {f"#/definitions/{name}" for name in reported["definitions"]}


async def test_nullable_fields_are_marked_in_openapi_3(client: Client) -> None:
    new = (await document(client))["components"]["schemas"][FRAMEWORK]
    old = (await client.get("/openapi/v2")).json()["definitions"][FRAMEWORK]

    fields = [schema["properties"]["spec"]["properties"]["executionType"] for schema in (new, old)]
    assert [field.get("nullable") for field in fields] == [True, None]
    assert [field["enum"] for field in fields] == [["Create", "Start", "Stop"]] * 2


@pytest.mark.parametrize("path", [OURS, "api/v1"])
async def test_it_is_openapi_3_0_and_not_plain_json_schema(client: Client, path: str) -> None:
    def check(schema: Any) -> None:
        if isinstance(schema, list):
            for each in schema:
                check(each)
        elif isinstance(schema, dict):
            assert not isinstance(schema.get("type"), list), schema
            assert "x-must" not in schema
            assert "$ref" not in schema or len(schema) == 1, schema
            assert None not in schema.get("enum", ())
            for each in schema.values():
                check(each)

    check((await document(client, path))["components"])


async def test_pods_and_tasks_have_the_same_spec(client: Client) -> None:
    schemas = (await document(client, "api/v1"))["components"]["schemas"]

    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]
    assert "containers" in schemas["io.k8s.api.core.v1.PodSpec"]["properties"]
    limits = schemas["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert limits["additionalProperties"]["$ref"].endswith(".Quantity")


async def test_only_supported_verbs_are_described(client: Client) -> None:
    paths = (await document(client, "api/v1"))["paths"]

    assert set(paths["/api/v1/nodes/{name}"]) == {"get", "parameters"}
    assert set(paths["/api/v1/namespaces"]) == {"get", "post", "parameters"}
    log = paths["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"]
    assert {"follow", "tailLines"} <= {parameter["name"] for parameter in log["parameters"]}


@pytest.mark.parametrize(
    "accept", [ACCEPT_OF_OLD_KUBECTL, PROTOBUF, f"{ACCEPT_OF_OLD_KUBECTL},application/json"]
)
async def test_check_004_old_kubectl_gets_protobuf(client: Client, accept: str) -> None:
    response = await client.get("/openapi/v2", accept)

    assert (response.status, response.headers["Content-Type"]) == (200, PROTOBUF)
    assert response.body == (
        b"\x0a\x032.0" + b"\x12\x18" + b"\x0a\x12Framework Launcher" + b"\x12\x02v1" + b"\x42\x00"
    )


@pytest.mark.parametrize("accept", ["application/json", "application/json; charset=utf-8", "*/*", None])
async def test_other_clients_get_swagger_as_json(client: Client, accept: str | None) -> None:
    response = await client.get("/openapi/v2", accept)

    assert response.headers["Content-Type"] == "application/json"
    reported = response.json()
    assert reported["swagger"] == "2.0"
    assert reported["definitions"][FRAMEWORK]["x-kubernetes-group-version-kind"] == [KIND]
    patch = reported["paths"][ITEM]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["consumes"]


async def test_other_types_are_not_acceptable(client: Client) -> None:
    old = await client.get("/openapi/v2", "text/html")
    new = await client.get(
        f"/openapi/v3/{OURS}", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
    )

    assert (old.status, old.body) == (406, b"")
    new.failure(406, "NotAcceptable")


@pytest.mark.parametrize("path", ["/openapi/v2", f"/openapi/v3/{OURS}"])
async def test_check_094_an_unchanged_document_is_not_sent_again(client: Client, path: str) -> None:
    etag = (await client.get(path)).headers["ETag"]

    response = await client.get(path, If_None_Match=etag)

    assert (response.status, response.body, response.headers["ETag"]) == (304, b"", etag)


async def test_check_095_only_the_url_with_the_current_hash_is_cacheable(client: Client) -> None:
    index = (await client.get("/openapi/v3")).json()["paths"]
    right = await client.get(index[OURS]["serverRelativeURL"])
    wrong = await client.get(f"/openapi/v3/{OURS}?hash=00")
    without = await client.get(f"/openapi/v3/{OURS}")

    assert right.headers["Cache-Control"] == "public, immutable"
    assert right.headers["Expires"] == "Fri, 01 Jan 2027 00:00:00 GMT"
    assert right.headers["ETag"].strip('"') in index[OURS]["serverRelativeURL"]
    assert (wrong.status, wrong.headers["Cache-Control"]) == (200, "no-cache, private")
    assert (without.status, without.headers["Cache-Control"]) == (200, "no-cache, private")
    assert right.body == wrong.body == without.body


async def test_check_095_other_groups_have_no_document(client: Client) -> None:
    response = await client.get("/openapi/v3/apis/other.example/v1")

    assert (response.status, response.body) == (404, b"")
