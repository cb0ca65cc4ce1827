"""The conversion of jobs, and the translation of Framework errors into job errors."""

from typing import Any

import pytest

from launcher.core.errors import FieldError
from launcher.job_kinds.job_kind import (
    JOB_KINDS,
    WRITTEN_AS_ANNOTATION,
    annotate_written_version,
    convert_job,
    job_kind_of,
    translate_error,
)
from tests.job_kinds.samples import a_tfjob, replicas

(TFJOB,) = [job_kind for job_kind in JOB_KINDS if job_kind.kind.kind == "TFJob"]
Json = dict[str, Any]


def test_each_version_of_a_kind_belongs_to_its_job_kind() -> None:
    for job_kind in JOB_KINDS:
        assert {job_kind_of(kind) for kind in job_kind.kinds} == {job_kind}


def test_metadata_of_the_api_server_and_kubectl_is_ignored() -> None:
    own = {"labels": {"a": "b"}, "annotations": {"note": "c"}}
    added = {
        "uid": "1",
        "resourceVersion": "2",
        "generation": 3,
        "finalizers": ["foregroundDeletion"],
        "ownerReferences": [{"uid": "4"}],
        "deletionTimestamp": "2026-01-31T12:00:00Z",
        "annotations": {**own["annotations"], "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }

    conversion = convert_job(TFJOB, a_tfjob(metadata={**own, **added}))

    assert conversion.framework["metadata"] == {"name": "dist", **own}


def test_a_job_behaves_as_with_the_operators_of_its_version() -> None:
    old = a_tfjob(metadata={"annotations": {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1beta2"}})

    assert convert_job(TFJOB, old).framework["spec"]["cleanPodPolicy"] == "Running"
    assert convert_job(TFJOB, a_tfjob()).framework["spec"]["cleanPodPolicy"] == "None"


def test_only_jobs_of_another_version_are_annotated() -> None:
    stored, *others = TFJOB.kinds

    assert annotate_written_version(stored, a_tfjob()) == a_tfjob()
    for kind in others:
        assert annotate_written_version(kind, a_tfjob())["metadata"]["annotations"] == {
            WRITTEN_AS_ANNOTATION: kind.api_version
        }


def test_an_existing_annotation_is_kept() -> None:
    job = a_tfjob(metadata={"annotations": {WRITTEN_AS_ANNOTATION: "kubeflow.org/v1alpha1"}})

    assert annotate_written_version(TFJOB.kinds[-1], job) == job


LIST_JOB: Json = {"spec": {"replicaSpecs": [{"template": {}}, {"template": {}}]}}


@pytest.mark.parametrize(
    ("job", "framework_field", "job_field"),
    [
        pytest.param(
            a_tfjob(PS=replicas(), Worker=replicas()),
            "spec.taskRoles[1].task.pod.spec.containers[0].name",
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].name",
            id="in a pod",
        ),
        pytest.param(
            a_tfjob(), "spec.taskRoles[0].taskNumber", "spec.tfReplicaSpecs.Worker.replicas", id="count"
        ),
        pytest.param(a_tfjob(), "spec.taskRoles[0].name", "spec.tfReplicaSpecs.Worker", id="type"),
        pytest.param(a_tfjob(), "spec.taskRoles", "spec.tfReplicaSpecs", id="all types"),
        pytest.param(
            LIST_JOB, "spec.taskRoles[1].task.pod.spec", "spec.replicaSpecs[1].template.spec", id="a list"
        ),
        pytest.param(
            a_tfjob(policy={"suspend": True}),
            "spec.gang.minTasks",
            "spec.runPolicy.schedulingPolicy.minAvailable",
            id="the gang",
        ),
        pytest.param(
            a_tfjob(policy={"suspend": True}),
            "spec.activeDeadlineSeconds",
            "spec.runPolicy.activeDeadlineSeconds",
            id="a policy",
        ),
        pytest.param(
            a_tfjob(), "spec.activeDeadlineSeconds", "spec.activeDeadlineSeconds", id="an old policy"
        ),
        pytest.param(a_tfjob(), "metadata.name", "metadata.name", id="a field with the same name"),
        pytest.param(
            a_tfjob(**{f"T{n}": replicas() for n in range(11)}),  # type: ignore[arg-type]  # all are replica types
            "spec.taskRoles[10].name",
            "spec.tfReplicaSpecs.T10",
            id="many types",
        ),
    ],
)
def test_an_error_names_the_field_of_the_job(job: Json, framework_field: str, job_field: str) -> None:
    original = FieldError(framework_field, f'unknown field "{framework_field}"')

    error = translate_error(TFJOB, job, original)

    assert (error.field, error.message) == (job_field, f'unknown field "{job_field}"')
