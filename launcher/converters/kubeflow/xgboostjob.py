"""Converts XGBoostJobs, with the variables for Rabit and distributed LightGBM."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import NEXT_INDEX, address, framework_for
from launcher.converters.kubeflow.job_spec import (
    JobFamily,
    KubeflowJob,
    ReplicaSpec,
    check_single_replica,
    read_job,
)
from launcher.core.errors import FieldError, InvalidObject

Json = dict[str, Any]

MASTER, WORKER = "master", "worker"
XGBOOSTJOBS = JobFamily(
    kind="XGBoostJob",
    versions=("kubeflow.org/v1",),
    field="xgbReplicaSpecs",
    operator="xgboostjob-controller",
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    chiefs=(MASTER,),
    deciding=(MASTER, WORKER),
)


def convert(obj: Json) -> Conversion:
    """
    Converts a XGBoostJob to a Framework.

    Raises InvalidObject with all errors and unsupported fields.
    """
    errors: list[FieldError] = []
    job, spec = read_job(obj, XGBOOSTJOBS, errors)
    spec.finish()
    check_single_replica(job, MASTER, errors, is_required=True)
    if errors:
        raise InvalidObject(tuple(errors))
    return framework_for(job, _XgboostSemantics(job))


@dataclass(frozen=True, slots=True)
class _XgboostSemantics:
    """Completion and variables of an XGBoostJob."""

    job: KubeflowJob

    def completion(self, replica: ReplicaSpec) -> Json:
        """Any failure fails the job; success of the master completes it."""
        return {"minFailedTaskCount": 1, "minSucceededTaskCount": 1 if replica.type == MASTER else -1}

    def variables(self, replica: ReplicaSpec) -> Mapping[str, str]:
        master, workers = self.job.replica(MASTER), self.job.replica(WORKER)
        variables = {
            "MASTER_PORT": str((master or replica).port),
            "MASTER_ADDR": address(MASTER, 0),
            "WORLD_SIZE": str(self.job.total),
            "RANK": "0" if replica.type == MASTER else NEXT_INDEX,
            "PYTHONUNBUFFERED": "1",
        }
        if workers is not None and self.job.total > 1:
            variables["WORKER_PORT"] = str(workers.port)
            variables["WORKER_ADDRS"] = ",".join(address(WORKER, index) for index in range(workers.count))
        return variables

    def extend_role(self, replica: ReplicaSpec, role: Json) -> Json:  # noqa: ARG002 - nothing differs by type
        return role

    def notes(self) -> Iterator[str]:
        return iter(())
