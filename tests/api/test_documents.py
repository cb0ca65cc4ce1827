from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from launcher.api.api_resources import SERVED
from launcher.api.openapi.documents import OpenApi
from launcher.job_kinds.job_kind import FOREIGN
from tests.api.around import application, running
from tests.api.client import Client
from tests.core.pod_words import PRODUCTS

ASKED_BY_OLD_KUBECTL = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OURS = "apis/launcher.microsoft.com/v1"
ITEM = "/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks/{name}"
FRAMEWORK = "com.microsoft.launcher.v1.Framework"
KIND = {"group": "launcher.microsoft.com", "version": "v1", "kind": "Framework"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    openapi = OpenApi(SERVED, lambda: 1_767_225_600.0)
    app = application()
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
    """Own fields, which are those written in place, that say nothing of themselves."""
    for name, field in schema.get("properties", {}).items():
        if "description" not in field:
            yield f"{path}.{name}"
        yield from without_description(field, f"{path}.{name}")
    if "items" in schema:
        yield from without_description(schema["items"], path)


async def test_check_003_the_index_leads_to_a_document_for_each_group(client: Client) -> None:
    index = (await client.get("/openapi/v3")).json()["paths"]

    jobs = {f"apis/{kind.api_version}" for foreign in FOREIGN for kind in foreign.kinds}
    assert set(index) == {"api/v1", OURS} | jobs
    answer = await client.get(index[OURS]["serverRelativeURL"])
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    patch = answer.json()["paths"][ITEM]["patch"]
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


async def test_every_field_of_ours_says_what_it_is_for(client: Client) -> None:
    schema = (await document(client))["components"]["schemas"][FRAMEWORK]

    assert "description" in schema
    for name in ("apiVersion", "kind", "metadata", "status"):
        assert "description" in schema["properties"][name]
    for name in ("metadata", "spec", "status"):
        assert list(without_description(schema["properties"][name], name)) == []


async def test_every_field_of_a_pod_says_what_it_is_for(client: Client) -> None:
    schemas = (await document(client, "api/v1"))["components"]["schemas"]

    silent = [
        bare
        for name, schema in schemas.items()
        if name.rpartition(".")[2] not in PRODUCTS
        for bare in without_description(schema, name)
    ]
    assert silent == []


async def test_the_status_is_described_and_may_hold_more(client: Client) -> None:
    status = (await document(client))["components"]["schemas"][FRAMEWORK]["properties"]["status"]

    assert status["x-kubernetes-preserve-unknown-fields"] is True
    condition = status["properties"]["conditions"]["items"]["properties"]["type"]
    assert condition == {
        "type": "string",
        "nullable": True,
        "description": "Started, Running, Succeeded, Failed, Suspended or Valid.",
    }
    # It stands in the Framework, and nowhere else.
    assert not [name for name in (await document(client))["components"]["schemas"] if "Status" in name]


@pytest.mark.parametrize("path", [OURS, "api/v1"])
async def test_every_reference_leads_somewhere(client: Client, path: str) -> None:
    told = await document(client, path)

    known = {f"#/components/schemas/{name}" for name in told["components"]["schemas"]}
    assert set(references(told)) <= known


async def test_every_reference_of_the_old_document_leads_somewhere(client: Client) -> None:
    told = (await client.get("/openapi/v2")).json()

    assert set(references(told)) <= {f"#/definitions/{name}" for name in told["definitions"]}


async def test_a_field_that_may_be_null_says_so_where_that_can_be_said(client: Client) -> None:
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


async def test_pods_have_the_spec_that_tasks_have(client: Client) -> None:
    schemas = (await document(client, "api/v1"))["components"]["schemas"]

    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]
    assert "containers" in schemas["io.k8s.api.core.v1.PodSpec"]["properties"]
    limits = schemas["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert limits["additionalProperties"]["$ref"].endswith(".Quantity")


async def test_only_what_works_is_described(client: Client) -> None:
    paths = (await document(client, "api/v1"))["paths"]

    assert set(paths["/api/v1/nodes/{name}"]) == {"get", "parameters"}
    assert set(paths["/api/v1/namespaces"]) == {"get", "post", "parameters"}
    log = paths["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"]
    assert {"follow", "tailLines"} <= {parameter["name"] for parameter in log["parameters"]}


@pytest.mark.parametrize(
    "accept", [ASKED_BY_OLD_KUBECTL, PROTOBUF, f"{ASKED_BY_OLD_KUBECTL},application/json"]
)
async def test_check_004_old_kubectl_gets_protobuf(client: Client, accept: str) -> None:
    answer = await client.get("/openapi/v2", accept)

    assert (answer.status, answer.headers["Content-Type"]) == (200, PROTOBUF)
    assert answer.body == (
        b"\x0a\x032.0" + b"\x12\x18" + b"\x0a\x12Framework Launcher" + b"\x12\x02v1" + b"\x42\x00"
    )


@pytest.mark.parametrize("accept", ["application/json", "application/json; charset=utf-8", "*/*", None])
async def test_everybody_else_gets_swagger_as_json(client: Client, accept: str | None) -> None:
    answer = await client.get("/openapi/v2", accept)

    assert answer.headers["Content-Type"] == "application/json"
    told = answer.json()
    assert told["swagger"] == "2.0"
    assert told["definitions"][FRAMEWORK]["x-kubernetes-group-version-kind"] == [KIND]
    patch = told["paths"][ITEM]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["consumes"]


async def test_no_other_type_can_be_had(client: Client) -> None:
    old = await client.get("/openapi/v2", "text/html")
    new = await client.get(
        f"/openapi/v3/{OURS}", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
    )

    assert (old.status, old.body) == (406, b"")
    new.refused(406, "NotAcceptable")


@pytest.mark.parametrize("path", ["/openapi/v2", f"/openapi/v3/{OURS}"])
async def test_check_094_who_has_it_already_is_not_sent_it_again(client: Client, path: str) -> None:
    etag = (await client.get(path)).headers["ETag"]

    answer = await client.get(path, If_None_Match=etag)

    assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", etag)


async def test_check_095_only_the_address_with_the_right_hash_is_kept(client: Client) -> None:
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
    answer = await client.get("/openapi/v3/apis/other.example/v1")

    assert (answer.status, answer.body) == (404, b"")
