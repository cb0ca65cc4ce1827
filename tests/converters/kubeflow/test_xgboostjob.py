"""XGBoostJobs and JAXJobs as Frameworks."""

import pytest

from launcher.core.errors import InvalidObject
from tests.converters.kubeflow.jobs import a_job, mapped, roles_of, types_of, variables_of


def test_an_xgboost_worker_gets_the_addresses_of_master_and_workers() -> None:
    job = a_job("XGBoostJob", {"Master": 1, "Worker": 2})

    assert list(variables_of(job, "dist-worker-1").items()) == [
        ("MASTER_PORT", "9999"),
        ("MASTER_ADDR", "dist-master-0"),
        ("WORLD_SIZE", "3"),
        ("RANK", "2"),
        ("PYTHONUNBUFFERED", "1"),
        ("WORKER_PORT", "9999"),
        ("WORKER_ADDRS", "dist-worker-0,dist-worker-1"),
    ]
    assert variables_of(job, "dist-master-0")["RANK"] == "0"


def test_a_single_master_gets_no_addresses_of_workers() -> None:
    assert "WORKER_ADDRS" not in variables_of(a_job("XGBoostJob", {"Master": 1}), "dist-master-0")


def test_the_master_completes_an_xgboost_job() -> None:
    roles = roles_of(a_job("XGBoostJob", {"Master": 1, "Worker": 2}))

    enough = {
        name: role["frameworkAttemptCompletionPolicy"]["minSucceededTaskCount"]
        for name, role in roles.items()
    }
    assert enough == {"master": 1, "worker": -1}
    assert roles["worker"]["task"]["pod"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize("masters", [None, 2])
def test_an_xgboost_job_has_one_master(masters: int | None) -> None:
    job = a_job("XGBoostJob", {"Master": 1, "Worker": 2})
    if masters is None:
        del types_of(job)["Master"]
    else:
        types_of(job)["Master"]["replicas"] = masters

    with pytest.raises(InvalidObject, match=r"xgbReplicaSpecs\.Master"):
        mapped(job)


def test_jax_workers_get_the_address_of_the_coordinator() -> None:
    job = a_job("JAXJob", {"Worker": 3})

    assert variables_of(job, "dist-worker-2") == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": "6666",
        "COORDINATOR_ADDRESS": "dist-worker-0",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "2",
    }


def test_a_jax_job_has_succeeded_when_all_workers_have() -> None:
    (role,) = roles_of(a_job("JAXJob", {"Worker": 3})).values()

    assert role["frameworkAttemptCompletionPolicy"] == {"minFailedTaskCount": 1, "minSucceededTaskCount": 3}
