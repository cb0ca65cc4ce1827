"""POST: what is accepted, what is refused, and what is said about either."""

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


async def test_check_005_a_new_framework_gets_what_only_the_server_knows(api: Api) -> None:
    answer = await api.post(B, {**framework(), "status": {"state": "Completed"}})

    assert answer.status == 201
    stored = answer.json()
    metadata = stored["metadata"]
    assert metadata["uid"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["generation"] == 1
    assert re.fullmatch(r"[1-9][0-9]*", metadata["resourceVersion"])
    assert metadata["namespace"] == "default"
    assert "status" not in stored
    assert answer.warnings == []
    assert (await api.get(A)).json() == stored


async def test_check_006_a_body_without_a_type_is_json(api: Api) -> None:
    assert (await api.post(B, framework(), None)).status == 201


async def test_check_007_the_same_name_twice_is_refused(api: Api) -> None:
    await made(api)

    told = (await api.post(B, framework())).refused(409, "AlreadyExists")

    assert told["message"] == f'{RESOURCE} "a" already exists'
    assert told["details"] == {"name": "a", "group": "launcher.microsoft.com", "kind": "frameworks"}


async def test_check_025_an_unknown_field_is_refused_who_wants_it_strictly(api: Api) -> None:
    body = with_spec(framework(), bogus=1, other=2)

    told = (await api.post(f"{B}?fieldValidation=Strict", body)).refused(400, "BadRequest")

    assert told["message"].startswith("strict decoding error: ")
    assert 'unknown field "spec.bogus", unknown field "spec.other"' in told["message"]


async def test_check_026_an_unknown_field_is_left_out_with_a_warning(api: Api) -> None:
    answer = await api.post(B, with_spec(framework(), bogus=1))

    assert answer.status == 201
    assert answer.warnings == ['299 - "unknown field \\"spec.bogus\\""']
    assert "bogus" not in answer.json()["spec"]


async def test_check_026_who_does_not_want_to_know_is_not_warned(api: Api) -> None:
    answer = await api.post(f"{B}?fieldValidation=Ignore", with_spec(framework(), bogus=1))

    assert (answer.status, answer.warnings) == (201, [])
    assert "bogus" not in answer.json()["spec"]


async def test_check_028_a_dry_run_answers_and_does_nothing(api: Api) -> None:
    async with api.watch(f"{B}?watch=1") as stream:
        answer = await api.post(f"{B}?dryRun=All", framework())
        (await api.get(A)).refused(404, "NotFound")
        await made(api, "after")
        event = await stream.next()

    assert answer.status == 201
    metadata = answer.json()["metadata"]
    assert "resourceVersion" not in metadata
    assert {"uid", "creationTimestamp", "generation"} <= metadata.keys()
    assert event["object"]["metadata"]["name"] == "after"


@pytest.mark.parametrize("declared", [YAML, "text/yaml", "application/x-yaml", "text/x-yaml; charset=utf-8"])
async def test_check_030_yaml_is_read_by_any_of_its_names(api: Api, declared: str) -> None:
    answer = await api.post(B, TEXT, declared)

    assert answer.status == 201
    assert answer.headers["Content-Type"] == JSON
    assert answer.json()["metadata"]["name"] == "a"


async def test_check_041_an_object_of_another_namespace_is_refused(api: Api) -> None:
    told = (await api.post(B, framework(namespace="other"))).refused(400, "BadRequest")

    assert "'other'" in told["message"]
    assert "'default'" in told["message"]


async def test_check_052_everything_that_is_wrong_is_told_at_once(api: Api) -> None:
    body = with_spec(framework(), executionType="start", retryPolicy={"maxRetryCount": "3"})
    body["spec"]["taskRoles"][0]["taskNumber"] = -1

    told = (await api.post(B, body)).refused(422, "Invalid")

    assert told["message"].startswith('Framework.launcher.microsoft.com "a" is invalid: [')
    details = told["details"]
    assert (details["name"], details["group"], details["kind"]) == (
        "a",
        "launcher.microsoft.com",
        "Framework",
    )
    assert causes(told) == {
        "spec.executionType": "FieldValueNotSupported",
        "spec.retryPolicy.maxRetryCount": "FieldValueTypeInvalid",
        "spec.taskRoles[0].taskNumber": "FieldValueInvalid",
    }


@pytest.mark.parametrize("name", ["Bad_Name", "a" * 254], ids=["signs", "length"])
async def test_check_053_a_name_that_is_none_is_refused(api: Api, name: str) -> None:
    told = (await api.post(B, framework(name))).refused(422, "Invalid")

    assert causes(told)["metadata.name"] == "FieldValueInvalid"


async def test_check_054_a_framework_without_a_name_is_refused(api: Api) -> None:
    told = (await api.post(B, {**framework(), "metadata": {}})).refused(422, "Invalid")

    assert causes(told) == {"metadata.name": "FieldValueRequired"}


async def test_check_055_names_are_generated(api: Api) -> None:
    body = {**framework(), "metadata": {"generateName": "g-"}}

    made = [(await api.post(B, body)).json()["metadata"] for _ in range(2)]

    assert all(re.fullmatch(r"g-[bcdfghjklmnpqrstvwxz2456789]{5}", each["name"]) for each in made)
    assert made[0]["name"] != made[1]["name"]
    assert [each["generateName"] for each in made] == ["g-", "g-"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"apiVersion": "launcher.microsoft.com/v2"}, "launcher.microsoft.com/v1", id="version"),
        pytest.param({"apiVersion": None}, "apiVersion is missing", id="no version"),
        pytest.param({"kind": None}, "kind is missing", id="no kind"),
    ],
)
async def test_check_056_an_object_must_say_what_it_is(api: Api, change: dict[str, Any], said: str) -> None:
    assert said in (await api.post(B, framework() | change)).refused(400, "BadRequest")["message"]


async def test_check_056_another_kind_is_invalid(api: Api) -> None:
    told = (await api.post(B, {**framework(), "kind": "Foo"})).refused(422, "Invalid")

    assert list(causes(told)) == ["kind"]


@pytest.mark.parametrize(
    ("declared", "way_out"),
    [
        ("application/x-www-form-urlencoded", "--data-binary @FILE"),
        ("text/plain", "-H 'Content-Type: application/yaml'"),
        ("multipart/form-data; boundary=x", "--data-binary @FILE"),
        ("application/vnd.kubernetes.protobuf", "application/json, application/yaml"),
    ],
)
async def test_check_057_what_a_web_page_could_send_is_refused(api: Api, declared: str, way_out: str) -> None:
    told = (await api.post(B, framework(), declared)).refused(415, "UnsupportedMediaType")

    assert way_out in told["message"]
    assert "application/json" in told["message"]


async def test_check_058_a_body_may_have_three_mebibytes_and_not_a_byte_more(api: Api) -> None:
    text = f"{TEXT}#".encode()
    full = text + b"x" * (3 * 1024 * 1024 - len(text))

    told = (await api.post(B, full + b"x", YAML)).refused(413, "RequestEntityTooLarge")

    assert told["message"] == "Request entity too large: limit is 3145728"
    assert (await api.post(B, full, YAML)).status == 201


async def test_check_058_a_body_that_does_not_say_how_long_it_is_is_cut_off_too(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"#" * 1024 * 1024

    answer = await api.call("POST", B, endless(), YAML)

    told = answer.refused(413, "RequestEntityTooLarge")
    assert told["message"] == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'"a"', b'{"apiVersion": ', b"{} x", b"\xef\xbb\xbf{}", b"\xff\xfe", b"null"],
    ids=["empty", "list", "text", "cut off", "garbage behind", "mark", "no UTF-8", "null"],
)
async def test_check_059_a_body_that_is_no_object_is_refused(api: Api, body: bytes) -> None:
    (await api.post(B, body)).refused(400, "BadRequest")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("fieldValidation=Bogus", "fieldValidation"),
        ("dryRun=None", "dryRun"),
        ("dryRun=", "dryRun"),
        (f"fieldManager={'x' * 129}", "fieldManager"),
    ],
)
async def test_check_096_options_are_checked(api: Api, query: str, field: str) -> None:
    told = (await api.post(f"{B}?{query}", framework())).refused(422, "Invalid")

    assert (told["details"]["kind"], told["details"]["group"]) == ("CreateOptions", "meta.k8s.io")
    assert list(causes(told)) == [field]
    (await api.get(A)).refused(404, "NotFound")


async def test_check_097_of_two_equal_keys_the_last_counts_with_a_warning(api: Api) -> None:
    body = TEXT.replace("spec:\n  task", "spec:\n  description: one\n  description: two\n  task")

    answer = await api.post(B, body, YAML)

    assert answer.status == 201
    assert answer.json()["spec"]["description"] == "two"
    assert 'duplicate field \\"spec.description\\"' in answer.warnings[0]
    told = (await api.post(f"{B}?fieldValidation=Strict", body, YAML)).refused(400, "BadRequest")
    assert 'duplicate field "spec.description"' in told["message"]


async def test_check_098_warnings_are_bounded(api: Api) -> None:
    body = with_spec(framework(), **{f"x{n:02}{'y' * 300}": n for n in range(30)})

    answer = await api.post(B, body)

    assert answer.status == 201
    texts = [warning.removeprefix('299 - "').removesuffix('"') for warning in answer.warnings]
    assert len(texts) > 10
    assert sum(map(len, texts)) <= 4096 + 4 * len(texts)
    assert max(map(len, texts)) <= 256 + 4


def test_check_098_each_warning_is_cut_when_all_are_too_long() -> None:
    headers = warning_headers([f"{n} {'x' * 600}" for n in range(30)] + ["0 " + "x" * 600])

    assert len(headers) == 16
    assert all(len(header) == len('299 - ""') + 256 for header in headers)


def test_check_098_a_warning_is_one_line_and_quoted() -> None:
    assert warning_headers(['a "b"\n\\c', 'a "b"\n\\c']) == ['299 - "a \\"b\\" \\\\c"']


async def test_check_099_labels_and_annotations_are_checked(api: Api) -> None:
    long = (await api.post(B, framework(annotations={"a": "x" * 262_144}))).refused(422, "Invalid")
    bad = (await api.post(B, framework(labels={"a": "not ok"}))).refused(422, "Invalid")
    (await api.post(B, framework(labels={"a": 1}))).refused(400, "BadRequest")

    assert causes(long) == {"metadata.annotations": "FieldValueTooLong"}
    assert causes(bad) == {"metadata.labels": "FieldValueInvalid"}


async def test_check_115_two_documents_in_one_body_are_refused(api: Api) -> None:
    (await api.post(B, f"{TEXT}---{TEXT}", YAML)).refused(400, "BadRequest")

    assert names((await api.get(ALL)).json()) == []


async def test_check_116_newlines_that_curl_took_out_are_recognised(api: Api) -> None:
    told = (await api.post(B, TEXT.replace("\n", ""), YAML)).refused(400, "BadRequest")

    assert "--data-binary @FILE" in told["message"]


async def test_yaml_that_is_called_json_is_recognised(api: Api) -> None:
    told = (await api.post(B, TEXT, JSON)).refused(400, "BadRequest")

    assert "Content-Type: application/yaml" in told["message"]


async def test_a_compressed_body_is_refused(api: Api) -> None:
    answer = await api.call("POST", B, b"\x1f\x8b", JSON, {"Content-Encoding": "gzip"})

    assert "compressed" in answer.refused(400, "BadRequest")["message"]


async def test_a_version_cannot_be_chosen(api: Api) -> None:
    (await api.post(B, framework(resourceVersion="7"))).refused(400, "BadRequest")


async def test_a_list_is_no_framework(api: Api) -> None:
    (await api.post(B, {"apiVersion": "v1", "kind": "List", "items": []})).refused(400, "BadRequest")
    other = {"apiVersion": "launcher.microsoft.com/v1", "kind": "FrameworkList", "items": []}
    (await api.post(B, other)).refused(422, "Invalid")


async def test_a_finalizer_without_a_domain_is_accepted_with_a_warning(api: Api) -> None:
    answer = await api.post(B, framework(finalizers=["mine"]))

    assert answer.status == 201
    assert "example.com/mine" in answer.warnings[0]
