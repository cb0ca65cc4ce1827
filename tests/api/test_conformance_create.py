"""POST: accepted and rejected objects, and warnings."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launcher.api.http.warnings import warning_headers
from tests.api.client import JSON, YAML
from tests.api.conftest import Api
from tests.api.samples import ALL, RESOURCE, A, B, causes, framework, made, names, with_spec

TEXT = """
apiVersion: launcher.microsoft.com/v1
kind: Framework
metadata:
  name: a
spec:
  taskRoles:
  - name: worker
    taskNumber: 1
    task:
      pod:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: busybox
"""


async def test_check_005_a_new_framework_gets_server_side_metadata(api: Api) -> None:
    response = await api.post(B, {**framework(), "status": {"state": "Completed"}})

    assert response.status == 201
    stored = response.json()
    metadata = stored["metadata"]
    assert metadata["uid"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["generation"] == 1
    assert re.fullmatch(r"[1-9][0-9]*", metadata["resourceVersion"])
    assert metadata["namespace"] == "default"
    assert "status" not in stored
    assert response.warnings == []
    assert (await api.get(A)).json() == stored


async def test_check_006_a_body_without_a_type_is_json(api: Api) -> None:
    assert (await api.post(B, framework(), None)).status == 201


async def test_check_007_an_existing_name_is_rejected(api: Api) -> None:
    await made(api)

    reported = (await api.post(B, framework())).failure(409, "AlreadyExists")

    assert reported["message"] == f'{RESOURCE} "a" already exists'
    assert reported["details"] == {"name": "a", "group": "launcher.microsoft.com", "kind": "frameworks"}


async def test_check_025_an_unknown_field_is_an_error_with_strict_validation(api: Api) -> None:
    body = with_spec(framework(), bogus=1, other=2)

    reported = (await api.post(f"{B}?fieldValidation=Strict", body)).failure(400, "BadRequest")

    assert reported["message"].startswith("strict decoding error: ")
    assert 'unknown field "spec.bogus", unknown field "spec.other"' in reported["message"]


async def test_check_026_an_unknown_field_is_dropped_with_a_warning(api: Api) -> None:
    response = await api.post(B, with_spec(framework(), bogus=1))

    assert response.status == 201
    assert response.warnings == ['299 - "unknown field \\"spec.bogus\\""']
    assert "bogus" not in response.json()["spec"]


async def test_check_026_unknown_fields_are_not_reported_with_ignore(api: Api) -> None:
    response = await api.post(f"{B}?fieldValidation=Ignore", with_spec(framework(), bogus=1))

    assert (response.status, response.warnings) == (201, [])
    assert "bogus" not in response.json()["spec"]


async def test_check_028_a_dry_run_stores_nothing(api: Api) -> None:
    async with api.watch(f"{B}?watch=1") as stream:
        response = await api.post(f"{B}?dryRun=All", framework())
        (await api.get(A)).failure(404, "NotFound")
        await made(api, "after")
        event = await stream.next()

    assert response.status == 201
    metadata = response.json()["metadata"]
    assert "resourceVersion" not in metadata
    assert {"uid", "creationTimestamp", "generation"} <= metadata.keys()
    assert event["object"]["metadata"]["name"] == "after"


@pytest.mark.parametrize("declared", [YAML, "text/yaml", "application/x-yaml", "text/x-yaml; charset=utf-8"])
async def test_check_030_all_media_types_of_yaml_are_accepted(api: Api, declared: str) -> None:
    response = await api.post(B, TEXT, declared)

    assert response.status == 201
    assert response.headers["Content-Type"] == JSON
    assert response.json()["metadata"]["name"] == "a"


async def test_check_041_an_object_of_another_namespace_is_rejected(api: Api) -> None:
    reported = (await api.post(B, framework(namespace="other"))).failure(400, "BadRequest")

    assert "(other)" in reported["message"]
    assert "(default)" in reported["message"]


async def test_check_052_all_errors_are_reported_at_once(api: Api) -> None:
    body = with_spec(framework(), executionType="start", retryPolicy={"maxRetryCount": "3"})
    body["spec"]["taskRoles"][0]["taskNumber"] = -1

    reported = (await api.post(B, body)).failure(422, "Invalid")

    assert reported["message"].startswith('Framework.launcher.microsoft.com "a" is invalid: [')
    details = reported["details"]
    assert (details["name"], details["group"], details["kind"]) == (
        "a",
        "launcher.microsoft.com",
        "Framework",
    )
    assert causes(reported) == {
        "spec.executionType": "FieldValueNotSupported",
        "spec.retryPolicy.maxRetryCount": "FieldValueTypeInvalid",
        "spec.taskRoles[0].taskNumber": "FieldValueInvalid",
    }


@pytest.mark.parametrize("name", ["Bad_Name", "a" * 254], ids=["signs", "length"])
async def test_check_053_an_invalid_name_is_rejected(api: Api, name: str) -> None:
    reported = (await api.post(B, framework(name))).failure(422, "Invalid")

    assert causes(reported)["metadata.name"] == "FieldValueInvalid"


async def test_check_054_a_framework_without_a_name_is_rejected(api: Api) -> None:
    reported = (await api.post(B, {**framework(), "metadata": {}})).failure(422, "Invalid")

    assert causes(reported) == {"metadata.name": "FieldValueRequired"}


async def test_check_055_names_are_generated(api: Api) -> None:
    body = {**framework(), "metadata": {"generateName": "g-"}}

    made = [(await api.post(B, body)).json()["metadata"] for _ in range(2)]

    assert all(re.fullmatch(r"g-[bcdfghjklmnpqrstvwxz2456789]{5}", each["name"]) for each in made)
    assert made[0]["name"] != made[1]["name"]
    assert [each["generateName"] for each in made] == ["g-", "g-"]


@pytest.mark.parametrize(
    ("change", "output"),
    [
        pytest.param({"apiVersion": "launcher.microsoft.com/v2"}, "launcher.microsoft.com/v1", id="version"),
        pytest.param({"apiVersion": None}, "apiVersion is missing", id="no version"),
        pytest.param({"kind": None}, "kind is missing", id="no kind"),
    ],
)
async def test_check_056_an_object_must_have_apiversion_and_kind(
    api: Api, change: dict[str, Any], output: str
) -> None:
    assert output in (await api.post(B, framework() | change)).failure(400, "BadRequest")["message"]


async def test_check_056_another_kind_is_invalid(api: Api) -> None:
    reported = (await api.post(B, {**framework(), "kind": "Foo"})).failure(422, "Invalid")

    assert list(causes(reported)) == ["kind"]


@pytest.mark.parametrize(
    ("declared", "suggestion"),
    [
        ("application/x-www-form-urlencoded", "--data-binary @FILE"),
        ("text/plain", "-H 'Content-Type: application/yaml'"),
        ("multipart/form-data; boundary=x", "--data-binary @FILE"),
        ("application/vnd.kubernetes.protobuf", "application/json, application/yaml"),
    ],
)
async def test_check_057_content_types_of_html_forms_are_rejected(
    api: Api, declared: str, suggestion: str
) -> None:
    reported = (await api.post(B, framework(), declared)).failure(415, "UnsupportedMediaType")

    assert suggestion in reported["message"]
    assert "application/json" in reported["message"]


async def test_check_058_a_body_is_limited_to_three_mebibytes(api: Api) -> None:
    text = f"{TEXT}#".encode()
    full = text + b"x" * (3 * 1024 * 1024 - len(text))

    reported = (await api.post(B, full + b"x", YAML)).failure(413, "RequestEntityTooLarge")

    assert reported["message"] == "Request entity too large: limit is 3145728"
    assert (await api.post(B, full, YAML)).status == 201


async def test_check_058_a_chunked_body_is_limited(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"#" * 1024 * 1024

    response = await api.call("POST", B, endless(), YAML)

    reported = response.failure(413, "RequestEntityTooLarge")
    assert reported["message"] == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'"a"', b'{"apiVersion": ', b"{} x", b"\xef\xbb\xbf{}", b"\xff\xfe", b"null"],
    ids=["empty", "list", "text", "cut off", "garbage behind", "mark", "no UTF-8", "null"],
)
async def test_check_059_a_body_that_is_not_an_object_is_rejected(api: Api, body: bytes) -> None:
    (await api.post(B, body)).failure(400, "BadRequest")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("fieldValidation=Bogus", "fieldValidation"),
        ("dryRun=None", "dryRun"),
        ("dryRun=", "dryRun"),
        (f"fieldManager={'x' * 129}", "fieldManager"),
    ],
)
async def test_check_096_options_are_validated(api: Api, query: str, field: str) -> None:
    reported = (await api.post(f"{B}?{query}", framework())).failure(422, "Invalid")

    assert (reported["details"]["kind"], reported["details"]["group"]) == ("CreateOptions", "meta.k8s.io")
    assert list(causes(reported)) == [field]
    (await api.get(A)).failure(404, "NotFound")


async def test_check_097_the_last_of_duplicate_fields_counts_with_a_warning(api: Api) -> None:
    body = TEXT.replace("spec:\n  task", "spec:\n  description: one\n  description: two\n  task")

    response = await api.post(B, body, YAML)

    assert response.status == 201
    assert response.json()["spec"]["description"] == "two"
    assert 'duplicate field \\"spec.description\\"' in response.warnings[0]
    reported = (await api.post(f"{B}?fieldValidation=Strict", body, YAML)).failure(400, "BadRequest")
    assert 'duplicate field "spec.description"' in reported["message"]


async def test_check_098_warnings_are_bounded(api: Api) -> None:
    body = with_spec(framework(), **{f"x{n:02}{'y' * 300}": n for n in range(30)})

    response = await api.post(B, body)

    assert response.status == 201
    texts = [warning.removeprefix('299 - "').removesuffix('"') for warning in response.warnings]
    assert len(texts) > 10
    assert sum(map(len, texts)) <= 4096 + 4 * len(texts)
    assert max(map(len, texts)) <= 256 + 4


def test_check_098_long_warnings_are_truncated() -> None:
    headers = warning_headers([f"{n} {'x' * 600}" for n in range(30)] + ["0 " + "x" * 600])

    assert len(headers) == 16
    assert all(len(header) == len('299 - ""') + 256 for header in headers)


def test_check_098_a_warning_is_one_line_and_quoted() -> None:
    assert warning_headers(['a "b"\n\\c', 'a "b"\n\\c']) == ['299 - "a \\"b\\" \\\\c"']


async def test_check_099_labels_and_annotations_are_validated(api: Api) -> None:
    long = (await api.post(B, framework(annotations={"a": "x" * 262_144}))).failure(422, "Invalid")
    bad = (await api.post(B, framework(labels={"a": "not ok"}))).failure(422, "Invalid")
    (await api.post(B, framework(labels={"a": 1}))).failure(400, "BadRequest")

    assert causes(long) == {"metadata.annotations": "FieldValueTooLong"}
    assert causes(bad) == {"metadata.labels": "FieldValueInvalid"}


async def test_check_115_several_yaml_documents_are_rejected(api: Api) -> None:
    (await api.post(B, f"{TEXT}---{TEXT}", YAML)).failure(400, "BadRequest")

    assert names((await api.get(ALL)).json()) == []


async def test_check_116_lines_joined_by_curl_are_explained(api: Api) -> None:
    reported = (await api.post(B, TEXT.replace("\n", ""), YAML)).failure(400, "BadRequest")

    assert "--data-binary @FILE" in reported["message"]


async def test_yaml_declared_as_json_is_explained(api: Api) -> None:
    reported = (await api.post(B, TEXT, JSON)).failure(400, "BadRequest")

    assert "Content-Type: application/yaml" in reported["message"]


async def test_a_compressed_body_is_rejected(api: Api) -> None:
    response = await api.call("POST", B, b"\x1f\x8b", JSON, {"Content-Encoding": "gzip"})

    assert "compressed" in response.failure(400, "BadRequest")["message"]


async def test_a_resourceversion_cannot_be_set_at_creation(api: Api) -> None:
    (await api.post(B, framework(resourceVersion="7"))).failure(400, "BadRequest")


async def test_a_list_is_rejected(api: Api) -> None:
    (await api.post(B, {"apiVersion": "v1", "kind": "List", "items": []})).failure(400, "BadRequest")
    other = {"apiVersion": "launcher.microsoft.com/v1", "kind": "FrameworkList", "items": []}
    (await api.post(B, other)).failure(422, "Invalid")


async def test_a_finalizer_without_a_domain_is_accepted_with_a_warning(api: Api) -> None:
    response = await api.post(B, framework(finalizers=["mine"]))

    assert response.status == 201
    assert "example.com/mine" in response.warnings[0]
