"""A Framework that could never end is not created; an existing one may be scaled to nothing."""

from typing import Any

import pytest

from tests.api.client import APPLY, MERGE
from tests.api.conftest import Api
from tests.api.samples import A, B, causes, framework, made
from tests.builders import a_framework, a_role


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_a_framework_without_tasks_is_not_created(api: Api, query: str) -> None:
    obj = a_framework(a_role(tasks=0), name="a")

    posted = (await api.post(f"{B}{query}", obj)).failure(422, "Invalid")
    applied = (await api.patch(f"{A}{query or '?'}&fieldManager=me".replace("?&", "?"), obj, APPLY)).failure(
        422, "Invalid"
    )

    assert list(causes(posted)) == list(causes(applied)) == ["spec.taskRoles[0].taskNumber"]
    (await api.get(A)).failure(404, "NotFound")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"taskroles": [a_role()]}, "spec.taskRoles", id="the roles"),
        pytest.param(
            {"taskRoles": [{"name": "w", "taskNum": 2, "task": a_role()["task"]}]},
            "spec.taskRoles[0].taskNumber",
            id="the number of tasks",
        ),
    ],
)
async def test_a_misspelled_required_field_is_an_error(api: Api, spec: dict[str, Any], field: str) -> None:
    reported = (await api.post(B, {**framework(), "spec": spec})).failure(422, "Invalid")

    assert list(causes(reported)) == [field]
    assert "instead of" in reported["message"]


async def test_an_existing_framework_is_scaled_to_nothing_by_every_verb(api: Api) -> None:
    await made(api)
    none = [a_role(tasks=0)]

    patched = await api.patch(A, {"spec": {"taskRoles": none}}, MERGE)
    scale = await api.patch(f"{A}/scale", {"spec": {"replicas": 0}}, MERGE)
    put = await api.put(A, {**(await api.get(A)).json(), "spec": {"taskRoles": none}})

    assert [response.status for response in (patched, scale, put)] == [200, 200, 200], put.body


async def test_a_job_without_replicas_is_not_created(api: Api) -> None:
    worker = {"replicas": 0, "template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a"},
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }

    reported = (await api.post("/apis/kubeflow.org/v1/namespaces/default/tfjobs", job)).failure(
        422, "Invalid"
    )

    assert list(causes(reported)) == ["spec.tfReplicaSpecs.Worker.replicas"]


@pytest.mark.parametrize(
    ("field", "value", "writer"),
    [("privileged", False, "OpenPAI"), ("ActiveDeadlineSeconds", 60, "FrameworkController")],
)
@pytest.mark.parametrize("version", ["launcher.microsoft.com/v1", "frameworkcontroller.microsoft.com/v1"])
async def test_fields_that_other_systems_write_are_accepted_by_strict_validation(
    api: Api, version: str, field: str, value: Any, writer: str
) -> None:
    obj = {**framework(), "apiVersion": version}
    obj["spec"]["taskRoles"][0]["task"]["pod"]["spec"][field] = value
    path = f"/apis/{version}/namespaces/default/frameworks"

    response = await api.post(f"{path}?fieldValidation=Strict", obj)
    again = await api.put(f"{path}/a?fieldValidation=Strict", response.json())

    assert (response.status, again.status) == (201, 200), response.body
    (warning,) = [text for text in response.warnings if field in text]
    assert f"ignored, as by {writer}" in warning


async def test_other_unknown_fields_are_errors_with_strict_validation(api: Api) -> None:
    obj = framework()
    obj["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["Privileged"] = False

    (await api.post(f"{B}?fieldValidation=Strict", obj)).failure(400, "BadRequest")
