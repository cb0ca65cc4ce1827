"""API versions are converted once, where a request is decoded and its response is encoded."""

from collections.abc import Callable

import orjson
import pytest
from aiohttp import web

from launcher.api.http import request_body
from launcher.api.middleware import request_info
from launcher.core import manifest
from launcher.core.parsing.decoder import Decoded
from launcher.core.parsing.json_reader import read_json
from launcher.core.parsing.yaml_reader import read_yaml
from launcher.job_kinds.job_kind import WRITTEN_AS_ANNOTATION
from tests.api.client import APPLY, JSON, JSON_PATCH, YAML
from tests.api.conftest import Api
from tests.api.samples import TABLE, A, B, framework, made
from tests.job_kinds.samples import a_tfjob

ALIAS = "frameworkcontroller.microsoft.com"
V1 = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
V1BETA2 = "/apis/kubeflow.org/v1beta2/namespaces/default/tfjobs"


def in_alias(path: str) -> str:
    return path.replace("launcher.microsoft.com", ALIAS)


async def test_request_info_is_parsed_once_per_request(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = request_info.parse_request_info

    def counted(request: web.BaseRequest) -> request_info.RequestInfo:
        parsed.append(request.path)
        return parse(request)

    monkeypatch.setattr(request_info, "parse_request_info", counted)

    await api.post(in_alias(B), {**framework("a"), "apiVersion": f"{ALIAS}/v1"})

    assert parsed == [in_alias(B)]


@pytest.mark.parametrize("content_type", [JSON, YAML])
async def test_a_body_in_the_alias_group_is_parsed_once(
    api: Api, content_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def counted(read: Callable[[str], Decoded]) -> Callable[[str], Decoded]:
        def read_and_count(text: str) -> Decoded:
            texts.append(text)
            return read(text)

        return read_and_count

    for module in (request_body, manifest):
        monkeypatch.setattr(module, "read_json", counted(read_json))
        monkeypatch.setattr(module, "read_yaml", counted(read_yaml))

    response = await api.post(in_alias(B), {**framework("a"), "apiVersion": f"{ALIAS}/v1"}, content_type)

    assert response.status == 201, response.body
    assert len(texts) == 1


async def test_duplicate_fields_in_the_alias_group_are_reported(api: Api) -> None:
    body = '{"apiVersion": "%s/v1", "kind": "Framework", "kind": "Framework", "metadata": {"name": "a"}, "spec": %s}'
    spec = orjson.dumps(framework("a")["spec"]).decode()

    response = await api.post(in_alias(B), body % (ALIAS, spec))
    strict = await api.post(f"{in_alias(B)}?fieldValidation=Strict", body % (ALIAS, spec))

    assert response.status == 201, response.body
    assert any("duplicate field" in warning for warning in response.warnings)
    assert 'duplicate field "kind"' in strict.failure(400, "BadRequest")["message"]


async def test_a_json_patch_may_name_the_requested_version(api: Api) -> None:
    await made(api, "a")
    await api.post(V1, a_tfjob())
    add = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}

    in_group = [{"op": "test", "path": "/apiVersion", "value": f"{ALIAS}/v1"}, add]
    framework_answer = await api.patch(in_alias(A), in_group, JSON_PATCH)
    in_version = [{"op": "test", "path": "/apiVersion", "value": "kubeflow.org/v1beta2"}, add]
    job_answer = await api.patch(f"{V1BETA2}/dist", in_version, JSON_PATCH)

    assert (framework_answer.status, job_answer.status) == (200, 200)
    assert job_answer.json()["apiVersion"] == "kubeflow.org/v1beta2"


async def test_lists_and_tables_of_jobs_have_the_requested_version(api: Api) -> None:
    await api.post(V1, a_tfjob())

    listed = (await api.get(V1BETA2)).json()
    table = (await api.get(f"{V1BETA2}?includeObject=Object", TABLE)).json()

    assert (listed["apiVersion"], listed["kind"]) == ("kubeflow.org/v1beta2", "TFJobList")
    assert listed["items"][0]["apiVersion"] == "kubeflow.org/v1beta2"
    assert table["rows"][0]["object"]["apiVersion"] == "kubeflow.org/v1beta2"


async def test_an_applied_job_records_the_version_in_which_it_was_written(api: Api) -> None:
    job = {**a_tfjob(), "apiVersion": "kubeflow.org/v1beta2"}

    created = await api.patch(f"{V1BETA2}/dist?fieldManager=me", job, APPLY)

    assert created.status == 201, created.body
    assert created.json()["metadata"]["annotations"] == {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1beta2"}


async def test_a_job_of_the_stored_version_is_not_marked_by_an_update_in_an_older_one(api: Api) -> None:
    await api.post(V1, a_tfjob())
    read = (await api.get(f"{V1BETA2}/dist")).json()

    replaced = await api.put(f"{V1BETA2}/dist", read)

    assert replaced.status == 200, replaced.body
    assert "annotations" not in (await api.get(f"{V1}/dist")).json()["metadata"]


async def test_a_replaced_job_keeps_the_version_in_which_it_was_written(api: Api) -> None:
    job = {**a_tfjob(), "apiVersion": "kubeflow.org/v1beta2"}
    created = (await api.post(V1BETA2, job)).json()
    version = created["metadata"]["resourceVersion"]

    metadata = {**job["metadata"], "resourceVersion": version, "labels": {"a": "b"}}
    replaced = await api.put(f"{V1BETA2}/dist", {**job, "metadata": metadata})

    assert replaced.status == 200, replaced.body
    assert replaced.json()["metadata"]["annotations"] == {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1beta2"}


async def test_delete_options_may_have_the_requested_version(api: Api) -> None:
    await api.post(V1, a_tfjob())

    deleted = await api.delete(
        f"{V1BETA2}/dist", {"apiVersion": "kubeflow.org/v1beta2", "kind": "DeleteOptions"}
    )

    assert deleted.status == 200, deleted.body


@pytest.mark.parametrize("metadata", [5, {"name": "dist", "annotations": "text"}])
async def test_malformed_metadata_in_an_older_version_is_rejected(api: Api, metadata: object) -> None:
    job = {**a_tfjob(), "apiVersion": "kubeflow.org/v1beta2", "metadata": metadata}

    response = await api.post(V1BETA2, job)

    assert response.status in (400, 422), response.body
    assert (await api.get(V1)).json()["items"] == []
