"""PyTorchJobs as Frameworks."""

from typing import Any

import pytest

from launcher.core.errors import InvalidObject
from tests.converters.kubeflow.jobs import (
    a_job,
    container_of,
    mapped,
    pods_of,
    replicas,
    roles_of,
    types_of,
    variables_of,
)

Json = dict[str, Any]


def a_pytorchjob(master: int | None = 1, worker: int | None = 2, **spec: Any) -> Json:
    types = {"Master": master, "Worker": worker}
    return a_job("PyTorchJob", {name: count for name, count in types.items() if count is not None}, **spec)


def test_the_master_gets_its_address_and_the_world_size() -> None:
    assert list(variables_of(a_pytorchjob(), "dist-master-0").items()) == [
        ("PYTHONUNBUFFERED", "1"),
        ("MASTER_PORT", "23456"),
        ("PET_MASTER_PORT", "23456"),
        ("MASTER_ADDR", "dist-master-0"),
        ("PET_MASTER_ADDR", "dist-master-0"),
        ("WORLD_SIZE", "3"),
        ("RANK", "0"),
        ("PET_NODE_RANK", "0"),
        ("PET_NPROC_PER_NODE", "auto"),
        ("PET_NNODES", "3"),
    ]


def test_the_ranks_of_workers_follow_that_of_the_master() -> None:
    ranks = [variables_of(a_pytorchjob(), f"dist-worker-{index}")["RANK"] for index in range(2)]

    assert ranks == ["1", "2"]


@pytest.mark.parametrize(
    ("written", "size", "per_node"),
    [
        pytest.param("4", "12", "4", id="a number as text"),
        pytest.param(4, "12", "4", id="a number"),
        pytest.param("gpu", "3", "gpu", id="a word counts once"),
    ],
)
def test_the_world_size_is_the_number_of_all_processes(written: str | int, size: str, per_node: str) -> None:
    variables = variables_of(a_pytorchjob(nprocPerNode=written), "dist-worker-0")

    assert (variables["WORLD_SIZE"], variables["PET_NPROC_PER_NODE"]) == (size, per_node)


def test_without_a_master_no_replica_has_a_rank() -> None:
    assert variables_of(a_pytorchjob(master=None), "dist-worker-1") == {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NNODES": "2",
    }


def test_elastic_workers_use_the_first_worker_as_rendezvous_endpoint() -> None:
    elastic = {
        "minReplicas": 1,
        "maxReplicas": 3,
        "nProcPerNode": 2,
        "maxRestarts": 5,
        "rdzvId": "meeting",
        "rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
        "standalone": True,
    }

    variables = variables_of(a_pytorchjob(master=None, elasticPolicy=elastic), "dist-worker-0")

    assert variables == {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_RDZV_ENDPOINT": "dist-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:3",
        "PET_MAX_RESTARTS": "5",
        "PET_RDZV_ID": "meeting",
        "PET_RDZV_CONF": "a=1,b=2",
        "PET_STANDALONE": "",
    }


@pytest.mark.parametrize(
    ("job", "enough"),
    [
        pytest.param(a_pytorchjob(), {"master": 1, "worker": -1}, id="the master decides"),
        pytest.param(a_pytorchjob(master=None), {"worker": 2}, id="or all workers"),
        pytest.param(
            a_pytorchjob(master=None, elasticPolicy={"minReplicas": 1}),
            {"worker": 1},
            id="or any elastic one",
        ),
    ],
)
def test_the_job_succeeds_with_its_master_or_without_one_with_its_workers(
    job: Json, enough: dict[str, int]
) -> None:
    policies = {name: role["frameworkAttemptCompletionPolicy"] for name, role in roles_of(job).items()}

    assert {name: policy["minSucceededTaskCount"] for name, policy in policies.items()} == enough
    assert {policy["minFailedTaskCount"] for policy in policies.values()} == {1}


def test_failed_pods_are_retried_unless_restart_policy_is_never() -> None:
    job = a_pytorchjob()
    types_of(job)["Worker"]["restartPolicy"] = "Never"

    roles = roles_of(job)

    assert roles["master"]["task"]["retryPolicy"]["maxRetryCount"] == -1
    assert roles["master"]["task"]["pod"]["spec"]["restartPolicy"] == "OnFailure"
    assert roles["worker"]["task"]["retryPolicy"]["maxRetryCount"] == 0


def test_workers_are_started_when_the_master_runs() -> None:
    roles = roles_of(a_pytorchjob())

    assert roles["worker"]["startAfter"] == [{"role": "master", "condition": "Running"}]
    assert "startAfter" not in roles["master"]


def test_workers_of_a_gang_do_not_wait_for_the_master() -> None:
    job = a_pytorchjob(runPolicy={"schedulingPolicy": {"minAvailable": 3}})

    assert "startAfter" not in roles_of(job)["worker"]
    assert any("retry until the master is reachable" in note for note in mapped(job).notes)


def test_every_container_gets_the_variables_and_the_main_one_the_port() -> None:
    job = a_pytorchjob()
    types_of(job)["Worker"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "y"})

    spec = pods_of(job)["dist-worker-0"]["spec"]

    assert variables_of(job, "dist-worker-0", container=1) == variables_of(job, "dist-worker-0")
    assert [each.get("ports") for each in spec["containers"]] == [
        [{"name": "pytorchjob-port", "containerPort": 23456}],
        None,
    ]


def test_a_port_of_the_master_is_in_all_variables() -> None:
    job = a_pytorchjob()
    container_of(job, "Master")["ports"] = [{"name": "pytorchjob-port", "containerPort": 29500}]

    assert variables_of(job, "dist-worker-0")["MASTER_PORT"] == "29500"


def test_a_variable_of_the_template_is_overridden_with_a_note() -> None:
    job = a_pytorchjob()
    container_of(job, "Worker")["env"] = [{"name": "RANK", "value": "7"}, {"name": "MINE", "value": "x"}]

    env = pods_of(job)["dist-worker-0"]["spec"]["containers"][0]["env"]

    assert [each["value"] for each in env if each["name"] == "RANK"] == ["1"]
    assert variables_of(job, "dist-worker-0")["MINE"] == "x"
    assert "worker: RANK of the template is overridden by the value for its peers" in mapped(job).notes


def test_pods_have_the_operators_labels() -> None:
    labels = pods_of(a_pytorchjob())["dist-master-0"]["metadata"]["labels"]

    ours = {name: value for name, value in labels.items() if name.startswith("training.kubeflow.org/")}
    assert ours == {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "dist",
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
        "training.kubeflow.org/job-role": "master",
    }


def broken(change: str) -> Json:
    job = a_pytorchjob()
    match change:
        case "two masters":
            types_of(job)["Master"]["replicas"] = 2
        case "another type":
            types_of(job)["PS"] = replicas("PyTorchJob", 1)
        case "another container":
            container_of(job, "Worker")["name"] = "main"
        case "metrics":
            job["spec"]["elasticPolicy"] = {"metrics": [{}]}
        case _:
            job["spec"]["colour"] = "red"
    return job


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("two masters", "spec.pytorchReplicaSpecs.Master.replicas"),
        ("another type", "spec.pytorchReplicaSpecs.PS"),
        ("another container", "spec.pytorchReplicaSpecs.Worker.template.spec.containers"),
        ("metrics", "spec.elasticPolicy.metrics"),
        ("an unknown field", "spec.colour"),
    ],
)
def test_unsupported_fields_are_rejected_by_name(change: str, field: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        mapped(broken(change))

    assert [problem.field for problem in refused.value.errors] == [field]
