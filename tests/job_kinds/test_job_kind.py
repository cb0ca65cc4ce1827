"""What becomes of jobs, and how what is wrong with their Frameworks is told of them."""

from typing import Any

import pytest

from launcher.core.errors import FieldError
from launcher.job_kinds.job_kind import FOREIGN, WRITTEN_AS, convert_job, foreign_of, noted, translated
from tests.job_kinds.samples import a_tfjob, replicas

(TFJOB,) = [foreign for foreign in FOREIGN if foreign.kind.kind == "TFJob"]
Json = dict[str, Any]


def test_each_version_of_a_kind_is_known() -> None:
    for foreign in FOREIGN:
        assert {foreign_of(kind) for kind in foreign.kinds} == {foreign}


def test_what_others_write_into_the_metadata_does_not_matter() -> None:
    own = {"labels": {"a": "b"}, "annotations": {"note": "c"}}
    others = {
        "uid": "1",
        "resourceVersion": "2",
        "generation": 3,
        "finalizers": ["foregroundDeletion"],
        "ownerReferences": [{"uid": "4"}],
        "deletionTimestamp": "2026-01-31T12:00:00Z",
        "annotations": {**own["annotations"], "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }

    found = convert_job(TFJOB, a_tfjob(metadata={**own, **others}))

    assert found.framework["metadata"] == {"name": "dist", **own}


def test_a_job_is_run_as_the_operators_of_its_version_did() -> None:
    old = a_tfjob(metadata={"annotations": {WRITTEN_AS: "kubeflow.org/v1beta2"}})

    assert convert_job(TFJOB, old).framework["spec"]["cleanPodPolicy"] == "Running"
    assert convert_job(TFJOB, a_tfjob()).framework["spec"]["cleanPodPolicy"] == "None"


def test_only_what_is_written_in_another_version_is_marked() -> None:
    stored, *others = TFJOB.kinds

    assert noted(stored, a_tfjob()) == a_tfjob()
    for kind in others:
        assert noted(kind, a_tfjob())["metadata"]["annotations"] == {WRITTEN_AS: kind.api_version}


def test_a_mark_that_is_there_stays() -> None:
    job = a_tfjob(metadata={"annotations": {WRITTEN_AS: "kubeflow.org/v1alpha1"}})

    assert noted(TFJOB.kinds[-1], job) == job


OLD: Json = {"spec": {"replicaSpecs": [{"template": {}}, {"template": {}}]}}


@pytest.mark.parametrize(
    ("job", "ours", "theirs"),
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
            OLD, "spec.taskRoles[1].task.pod.spec", "spec.replicaSpecs[1].template.spec", id="a list"
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
        pytest.param(a_tfjob(), "metadata.name", "metadata.name", id="what is the same"),
        pytest.param(
            a_tfjob(**{f"T{n}": replicas() for n in range(11)}),  # type: ignore[arg-type]  # types, all of them
            "spec.taskRoles[10].name",
            "spec.tfReplicaSpecs.T10",
            id="of many types",
        ),
    ],
)
def test_a_problem_is_told_where_its_user_wrote_it(job: Json, ours: str, theirs: str) -> None:
    problem = translated(TFJOB, job, FieldError(ours, f'unknown field "{ours}"'))

    assert (problem.field, problem.message) == (theirs, f'unknown field "{theirs}"')
