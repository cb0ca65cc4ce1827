"""MPIJobs as Frameworks."""

from typing import Any

import pytest

from launcher.core.errors import InvalidObject
from tests.converters.kubeflow.jobs import (
    a_job,
    container_of,
    mapped,
    pods_of,
    roles_of,
    types_of,
    variables_of,
)

Json = dict[str, Any]


def an_mpijob(workers: int | None = 2, **spec: Any) -> Json:
    job = a_job("MPIJob", {"Launcher": 1, **({} if workers is None else {"Worker": workers})}, **spec)
    container_of(job, "Launcher")["command"] = ["mpirun", "train"]
    return job


def hostfile_of(job: Json) -> list[str]:
    (writer,) = pods_of(job)["dist-launcher-0"]["spec"]["initContainers"]
    words: list[str] = writer["command"][2].split("'")
    return words[3::2]


def test_the_job_completes_with_the_launcher_replica() -> None:
    policies = {
        name: role["frameworkAttemptCompletionPolicy"] for name, role in roles_of(an_mpijob()).items()
    }

    assert policies == {
        "launcher": {"minFailedTaskCount": 1, "minSucceededTaskCount": 1},
        "worker": {"minFailedTaskCount": -1, "minSucceededTaskCount": -1},
    }


def test_the_launcher_replica_starts_when_the_workers_run() -> None:
    roles = roles_of(an_mpijob())

    assert roles["launcher"]["startAfter"] == [{"role": "worker", "condition": "Running"}]
    assert "startAfter" not in roles["worker"]


@pytest.mark.parametrize(("slots", "shown"), [(None, 1), (4, 4)])
def test_the_hostfile_names_the_workers_and_their_slots(slots: int | None, shown: int) -> None:
    job = an_mpijob(**({} if slots is None else {"slotsPerWorker": slots}))

    assert hostfile_of(job) == [f"dist-worker-{index} slots={shown}" for index in range(2)]


def test_a_launcher_replica_with_gpus_is_in_the_hostfile() -> None:
    job = an_mpijob()
    container_of(job, "Launcher")["resources"] = {"limits": {"nvidia.com/gpu": 1}}

    assert hostfile_of(job)[0] == "dist-launcher-0 slots=1"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables_of(job, "dist-launcher-0")


def test_a_launcher_replica_without_gpus_has_no_visible_gpus() -> None:
    assert variables_of(an_mpijob(), "dist-launcher-0") == {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    assert variables_of(an_mpijob(), "dist-worker-0") == {}


def test_the_hostfile_is_written_with_the_image_of_the_main_container() -> None:
    job = an_mpijob(mainContainer="second")
    types_of(job)["Launcher"]["template"]["spec"]["containers"].append({"name": "second", "image": "y:2"})

    spec = pods_of(job)["dist-launcher-0"]["spec"]

    assert spec["initContainers"][0]["image"] == "y:2"
    mount = {"name": "mpi-job-config", "mountPath": "/etc/mpi"}
    assert all(mount in each["volumeMounts"] for each in [*spec["initContainers"], *spec["containers"]])
    assert spec["volumes"] == [{"name": "mpi-job-config", "emptyDir": {}}]


def test_a_worker_without_a_command_runs_an_ssh_server() -> None:
    quiet, busy = an_mpijob(), an_mpijob()
    container_of(busy, "Worker")["command"] = ["sleep", "365d"]

    assert pods_of(quiet)["dist-worker-0"]["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    assert pods_of(busy)["dist-worker-0"]["spec"]["containers"][0]["command"] == ["sleep", "365d"]
    assert len(mapped(quiet).notes) == len(mapped(busy).notes) + 1


def test_without_workers_the_hostfile_contains_only_the_launcher_replica() -> None:
    job = an_mpijob(workers=None)

    assert hostfile_of(job) == ["dist-launcher-0 slots=1"]
    assert "startAfter" not in roles_of(job)["launcher"]


def broken(change: str) -> Json:
    job = an_mpijob()
    match change:
        case "no launcher":
            del types_of(job)["Launcher"]
        case "two launchers":
            types_of(job)["Launcher"]["replicas"] = 2
        case "no such container":
            job["spec"]["mainContainer"] = "other"
        case "no container":
            types_of(job)["Worker"]["template"]["spec"]["containers"] = []
        case _:
            job["spec"]["sshAuthMountPath"] = "/root/.ssh"
    return job


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("no launcher", "spec.mpiReplicaSpecs.Launcher"),
        ("two launchers", "spec.mpiReplicaSpecs.Launcher.replicas"),
        ("no such container", "spec.mainContainer"),
        ("no container", "spec.mpiReplicaSpecs.Worker.template.spec.containers"),
        ("a field of another version", "spec.sshAuthMountPath"),
    ],
)
def test_unsupported_fields_are_rejected_by_name(change: str, field: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        mapped(broken(change))

    assert [problem.field for problem in refused.value.errors] == [field]
