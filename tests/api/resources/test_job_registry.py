"""Jobs over HTTP: every verb in every version, and errors."""

from typing import Any

import pytest

from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import JOB_KINDS, WRITTEN_AS_ANNOTATION
from tests.api.client import APPLY, YAML
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import TABLE, causes, version
from tests.job_kinds.samples import a_tfjob, replicas

V1 = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
V1BETA2 = "/apis/kubeflow.org/v1beta2/namespaces/default/tfjobs"
VERSIONS = [kind.version for kind in JOB_KINDS[0].kinds]

Json = dict[str, Any]


async def made(api: Api, job: Json | None = None, path: str = V1) -> Json:
    response = await api.post(path, job or a_tfjob())
    assert response.status == 201, response.body
    stored: Json = response.json()
    return stored


async def test_a_job_is_stored_as_it_was_written(api: Api) -> None:
    stored = await made(api)

    assert (stored["apiVersion"], stored["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert stored["spec"] == a_tfjob()["spec"]
    assert (await api.get(f"{V1}/dist")).json() == stored
    assert (await api.get("/apis/kubeflow.org/v1/tfjobs")).json()["items"] == [stored]


async def test_a_job_may_be_yaml_and_applied(api: Api) -> None:
    text = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: dist}
spec:
  tfReplicaSpecs:
    Worker: {template: {spec: {containers: [{name: tensorflow, image: tf}]}}}
"""
    applied = await api.patch(f"{V1}/dist?fieldManager=me", text, APPLY)
    again = await api.post(V1, text.replace("dist", "other"), YAML)

    assert (applied.status, again.status) == (201, 201)
    assert applied.json()["spec"] == again.json()["spec"]


@pytest.mark.parametrize("name", [{"a": "b"}, ["a"], 7])
async def test_the_name_of_a_variable_that_is_no_text_is_rejected_with_its_field(api: Api, name: Any) -> None:
    job = a_tfjob(Worker=replicas(2, env=[{"name": name, "value": "x"}]))

    status = (await api.post(V1, job)).failure(422, "Invalid")

    assert "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].name" in causes(status)


@pytest.mark.parametrize("shown", VERSIONS)
async def test_each_version_has_the_same_objects(api: Api, shown: str) -> None:
    path = V1.replace("/v1/", f"/{shown}/")
    stored = await made(api)

    one = (await api.get(f"{path}/dist")).json()
    listed = (await api.get(path)).json()
    changed = await api.patch(f"{path}/dist", {"metadata": {"labels": {"a": "b"}}})

    assert one == {**stored, "apiVersion": f"kubeflow.org/{shown}"}
    assert (listed["apiVersion"], listed["kind"]) == (f"kubeflow.org/{shown}", "TFJobList")
    assert listed["items"] == [one]
    assert changed.status == 200
    assert changed.json()["apiVersion"] == f"kubeflow.org/{shown}"
    assert (await api.get(f"{V1}/dist")).json()["metadata"]["labels"] == {"a": "b"}


async def test_a_job_records_the_older_version_in_which_it_was_written(api: Api) -> None:
    old = await made(api, a_tfjob(version="v1beta2"), V1BETA2)
    new = await made(api, a_tfjob("other"))
    put = await api.put(f"{V1BETA2}/other", {**new, "apiVersion": "kubeflow.org/v1beta2"})

    assert old["metadata"]["annotations"] == {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1beta2"}
    assert "annotations" not in new["metadata"]
    # A job that is only changed in an older version is not marked.
    assert "annotations" not in put.json()["metadata"]


async def test_the_list_of_replicas_of_v1alpha1_is_accepted(api: Api) -> None:
    job = {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "TFJob",
        "metadata": {"name": "dist"},
        "spec": {"ReplicaSpecs": [{"TfReplicaType": "Worker", "Replicas": 2, **_template("Template")}]},
    }

    stored = await made(api, job, V1.replace("/v1/", "/v1alpha1/"))

    assert stored["spec"] == job["spec"]


def _template(name: str) -> Json:
    return {name: replicas()["template"]}


async def test_a_version_cannot_be_sent_to_the_path_of_another(api: Api) -> None:
    reported = (await api.post(V1BETA2, a_tfjob())).failure(400, "BadRequest")

    assert reported["message"] == 'apiVersion is "kubeflow.org/v1"; must be "kubeflow.org/v1beta2"'


@pytest.mark.parametrize("shown", ["v1", "v1beta2"])
async def test_a_watch_has_the_requested_version(api: Api, shown: str) -> None:
    path = V1.replace("/v1/", f"/{shown}/")
    stored = await made(api)

    async with api.watch(f"{path}?watch=1&resourceVersion={version(stored) - 1}") as stream:
        await api.patch(f"{V1}/dist", {"metadata": {"labels": {"a": "b"}}})
        await api.delete(f"{V1}/dist?propagationPolicy=Background")
        events = await stream.take(3)

    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert {event["object"]["apiVersion"] for event in events} == {f"kubeflow.org/{shown}"}


async def test_a_table_shows_the_last_condition(api: Api) -> None:
    stored = await made(api)
    await made(api, a_tfjob("new"))
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}]
    await api.put(f"{V1}/dist/status", {**stored, "status": {"conditions": conditions}})

    table = (await api.get(V1, TABLE)).json()

    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [["dist", "Running"], ["new", None]]


async def test_status_and_spec_are_updated_separately(api: Api) -> None:
    stored = await made(api)
    both = {**stored, "spec": {}, "status": {"startTime": "2026-01-31T12:00:00Z"}}

    saved = (await api.put(f"{V1}/dist/status", both)).json()
    patched = (await api.patch(f"{V1}/dist", {"status": {"startTime": None}})).json()

    assert saved["spec"] == patched["spec"] == stored["spec"]
    assert saved["status"] == patched["status"] == both["status"]
    assert saved["metadata"]["generation"] == 1


async def test_the_scale_of_a_job_is_the_number_of_its_workers(api: Api) -> None:
    stored = await made(api, a_tfjob(worker=replicas(), PS=replicas(1)))
    status = {"replicaStatuses": {"Worker": {"active": 1, "selector": "a=b"}}}
    await api.put(f"{V1}/dist/status", {**stored, "status": status})

    scale = (await api.get(f"{V1}/dist/scale")).json()
    patched = (await api.patch(f"{V1}/dist/scale", {"spec": {"replicas": 3}})).json()
    scale["spec"]["replicas"] = 4
    old = await api.put(f"{V1}/dist/scale", scale)

    assert scale["kind"] == "Scale"
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    assert patched["spec"] == {"replicas": 3}
    assert (await api.get(f"{V1}/dist")).json()["spec"]["tfReplicaSpecs"]["worker"]["replicas"] == 3
    old.failure(409, "Conflict")


async def test_a_job_without_workers_has_no_scale(api: Api) -> None:
    await made(api, a_tfjob(Chief=replicas()))

    reported = (await api.get(f"{V1}/dist/scale")).failure(400, "BadRequest")

    assert reported["message"] == ('TFJob "dist" cannot be scaled: it has no workers in spec.tfReplicaSpecs')


def changed(job: Json, **worker: Any) -> Json:
    spec = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    spec.update(worker)
    return job


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        pytest.param(
            a_tfjob(spec={"tfImage": "x"}),
            {"spec.tfImage": "FieldValueForbidden"},
            id="what has no counterpart",
        ),
        pytest.param(
            a_tfjob(Worker=replicas(-1)),
            {"spec.tfReplicaSpecs.Worker.replicas": "FieldValueInvalid"},
            id="too few replicas",
        ),
        pytest.param(
            a_tfjob(Worker=replicas(10_001)),
            {
                "spec.tfReplicaSpecs.Worker.replicas": "FieldValueInvalid",
                "spec.tfReplicaSpecs": "FieldValueForbidden",
            },
            id="too many replicas",
        ),
        pytest.param(
            a_tfjob("1st", Worker=replicas(-1)),
            {
                "metadata.name": "FieldValueInvalid",
                "spec.tfReplicaSpecs.Worker.replicas": "FieldValueInvalid",
            },
            id="all that is wrong at once",
        ),
        pytest.param(
            a_tfjob(My_Type=replicas(), Worker=replicas()),
            {"spec.tfReplicaSpecs.My_Type": "FieldValueInvalid"},
            id="a type that no role can be called",
        ),
        pytest.param(
            changed(a_tfjob(), nodeSelector=3),
            {"spec.tfReplicaSpecs.Worker.template.spec.nodeSelector": "FieldValueTypeInvalid"},
            id="an invalid pod",
        ),
        pytest.param(
            a_tfjob(Worker=replicas(1, volumeMounts=[{"name": "no", "mountPath": "/a"}])),
            {
                "spec.tfReplicaSpecs.Worker.template.spec.containers[0].volumeMounts[0].name": (
                    "FieldValueNotFound"
                )
            },
            id="a volume that is not there",
        ),
        pytest.param(
            a_tfjob(Chief=replicas(), Master=replicas()),
            {"spec.tfReplicaSpecs.Master": "FieldValueDuplicate"},
            id="51 chief and master",
        ),
    ],
)
async def test_errors_name_the_fields_of_the_job(api: Api, job: Json, fields: dict[str, str]) -> None:
    reported = (await api.post(V1, job)).failure(422, "Invalid")

    assert causes(reported) == fields
    assert (reported["details"]["group"], reported["details"]["kind"]) == ("kubeflow.org", "TFJob")
    assert (await api.get(V1)).json()["items"] == []


async def test_the_admission_policy_applies_to_jobs() -> None:
    policy = AdmissionPolicy(host_network=False, max_tasks=3)
    async with serving(api_dependencies(memory_store(), policy=policy)) as api:
        network = (await api.post(V1, changed(a_tfjob(), hostNetwork=True))).failure(422, "Invalid")
        size = (await api.post(V1, a_tfjob(Worker=replicas(4)))).failure(422, "Invalid")

    assert causes(network) == {"spec.tfReplicaSpecs.Worker.template.spec.hostNetwork": "FieldValueForbidden"}
    assert causes(size) == {"spec.tfReplicaSpecs": "FieldValueForbidden"}


async def test_changed_semantics_are_reported_once(api: Api) -> None:
    job = a_tfjob(policy={"backoffLimit": 3}, Worker=replicas(2, "OnFailure"))

    first = await api.post(V1, job)
    second = await api.patch(f"{V1}/dist", {"metadata": {"labels": {"a": "b"}}})

    assert any("worker: backoffLimit 3 applies to each task" in each for each in first.warnings)
    assert second.warnings == []


async def test_unknown_fields_of_a_jobs_pods_are_reported_and_stored(api: Api) -> None:
    job = changed(a_tfjob(), olumes=[])
    field = "spec.tfReplicaSpecs.Worker.template.spec.olumes"

    plain = await api.post(V1, job)
    strict = (await api.post(f"{V1}?fieldValidation=Strict", {**job, "metadata": {"name": "b"}})).failure(
        400, "BadRequest"
    )

    assert any(f'unknown field \\"{field}\\"' in each for each in plain.warnings)
    assert "olumes" in plain.json()["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    assert f'unknown field "{field}"' in strict["message"]


@pytest.mark.parametrize(
    ("policy", "change", "field"),
    [
        pytest.param({}, {"managedBy": "kubeflow.org/training-operator"}, "managedBy", id="managedBy"),
        pytest.param(
            {"schedulingPolicy": {"queue": "a"}},
            {"schedulingPolicy": {"queue": "b"}},
            "schedulingPolicy.queue",
            id="its queue",
        ),
    ],
)
async def test_some_fields_of_a_job_are_immutable(api: Api, policy: Json, change: Json, field: str) -> None:
    await made(api, a_tfjob(policy=policy))

    reported = (await api.patch(f"{V1}/dist", {"spec": {"runPolicy": change}})).failure(422, "Invalid")

    assert causes(reported) == {f"spec.runPolicy.{field}": "FieldValueForbidden"}


async def test_a_job_cannot_be_replaced_without_a_version(api: Api) -> None:
    stored = await made(api)

    unread = await api.put(f"{V1}/dist", a_tfjob())
    read = await api.put(f"{V1}/dist", {**stored, "spec": a_tfjob(Worker=replicas(3))["spec"]})

    unread.failure(422, "Invalid")
    assert (read.status, read.json()["metadata"]["generation"]) == (200, 2)


async def test_a_job_is_deleted_in_the_background_by_default(api: Api) -> None:
    await made(api)
    await made(api, a_tfjob("other"))

    deleted = (await api.delete(f"{V1}/dist")).json()
    held = (await api.delete(f"{V1}/other?propagationPolicy=Foreground")).json()
    again = await api.post(V1, a_tfjob())

    assert (deleted["kind"], deleted["status"]) == ("Status", "Success")
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert again.status == 201


async def test_all_jobs_can_be_deleted(api: Api) -> None:
    await made(api, a_tfjob("a", metadata={"labels": {"team": "a"}}))
    await made(api, a_tfjob("b"))

    went = (await api.delete(f"{V1BETA2}?labelSelector=team=a&propagationPolicy=Background")).json()

    assert [(each["apiVersion"], each["metadata"]["name"]) for each in went["items"]] == [
        ("kubeflow.org/v1beta2", "a")
    ]
    assert [each["metadata"]["name"] for each in (await api.get(V1)).json()["items"]] == ["b"]


async def test_the_fields_of_a_job_are_described(api: Api) -> None:
    document = (await api.get("/openapi/v3/apis/kubeflow.org/v1")).json()
    schemas = document["components"]["schemas"]
    spec = schemas["org.kubeflow.v1.TFJob"]["properties"]["spec"]

    assert spec["properties"].keys() == {"tfReplicaSpecs", "runPolicy"}
    template = spec["properties"]["tfReplicaSpecs"]["additionalProperties"]["properties"]["template"]
    assert "PodTemplateSpec" in str(template)
    assert "/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/{name}/scale" in document["paths"]
