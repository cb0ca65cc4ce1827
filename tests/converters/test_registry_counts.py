"""A count that a job names is compared with its limit before anything is made for each replica."""

import time
import tracemalloc
from typing import Any

import pytest

from launcher.converters.registry import convert_to_framework
from launcher.core.errors import InvalidObject
from launcher.core.serialization.index_ranges import INDEXES_END
from tests.converters.kubeflow.jobs import a_job
from tests.job_kinds.samples import a_tfjob, replicas

Json = dict[str, Any]
HUGE = 2**31 - 1
#: A request's own copy and what is made of it: far below what one address for each of 2**31 replicas would take.
MOST_BYTES, MOST_SECONDS = 64 * 1024 * 1024, 10.0

JOBS = {
    "TFJob": ("spec.tfReplicaSpecs.Worker", a_tfjob(Worker=replicas(HUGE), PS=replicas(1))),
    "TFJob of a single type": ("spec.tfReplicaSpecs.Worker", a_tfjob(Worker=replicas(HUGE))),
    "TFJob with dynamic workers": (
        "spec.tfReplicaSpecs.PS",
        a_tfjob(Worker=replicas(1), PS=replicas(HUGE), spec={"enableDynamicWorker": True}),
    ),
    "PyTorchJob": ("spec.pytorchReplicaSpecs.Worker", a_job("PyTorchJob", {"Master": 1, "Worker": HUGE})),
    "MPIJob": ("spec.mpiReplicaSpecs.Worker", a_job("MPIJob", {"Launcher": 1, "Worker": HUGE})),
    "XGBoostJob": ("spec.xgbReplicaSpecs.Worker", a_job("XGBoostJob", {"Master": 1, "Worker": HUGE})),
    "JAXJob": ("spec.jaxReplicaSpecs.Worker", a_job("JAXJob", {"Worker": HUGE})),
}


def refused(job: Json) -> list[str]:
    """Why there is no Framework for *job*; finding that out may take little memory and little time."""
    began = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidObject) as caught:
            convert_to_framework(job)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < MOST_SECONDS
    return [str(problem) for problem in caught.value.errors]


@pytest.mark.parametrize(("field", "job"), JOBS.values(), ids=JOBS)
def test_a_count_beyond_the_limit_is_rejected_with_field_value_and_limit(field: str, job: Json) -> None:
    (problem,) = refused(job)

    assert problem.startswith(f"{field}.replicas: ")
    assert str(HUGE) in problem
    assert str(INDEXES_END) in problem


def test_the_maximum_number_of_replicas_is_converted() -> None:
    found = convert_to_framework(a_tfjob(Worker=replicas(INDEXES_END - 1), PS=replicas(1)))

    assert [role["taskNumber"] for role in found.framework["spec"]["taskRoles"]] == [INDEXES_END - 1, 1]


def test_addresses_in_many_containers_are_rejected_before_they_take_much_memory() -> None:
    job = a_job("XGBoostJob", {"Master": 1, "Worker": INDEXES_END - 1})
    for type_ in ("Master", "Worker"):
        containers = job["spec"]["xgbReplicaSpecs"][type_]["template"]["spec"]["containers"]
        containers += [{"name": f"c{index}"} for index in range(20_000)]

    (problem,) = refused(job)

    assert problem.startswith("spec.xgbReplicaSpecs: ")
    assert "bytes" in problem
