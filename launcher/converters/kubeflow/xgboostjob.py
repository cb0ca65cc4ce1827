"""An XGBoostJob into a Framework, and what its tasks are told for Rabit and for distributed LightGBM."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import NEXT_INDEX, address, framework_for
from launcher.converters.kubeflow.job_spec import JobFamily, KubeflowJob, Replica, check_one, read_job
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


def framework_of(obj: Json) -> Conversion:
    """
    The Framework that does what the XGBoostJob asks for.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[FieldError] = []
    job, spec = read_job(obj, XGBOOSTJOBS, problems)
    spec.finish()
    check_one(job, MASTER, problems, needed=True)
    if problems:
        raise InvalidObject(tuple(problems))
    return framework_for(job, _XgboostManner(job))


@dataclass(frozen=True, slots=True)
class _XgboostManner:
    """How the replicas of an XGBoostJob end it, and what they know of each other."""

    job: KubeflowJob

    def completion(self, replica: Replica) -> Json:
        """Any failure ends the job, and so does the master's success."""
        return {"minFailedTaskCount": 1, "minSucceededTaskCount": 1 if replica.type == MASTER else -1}

    def variables(self, replica: Replica) -> Mapping[str, str]:
        master, workers = self.job.of(MASTER), self.job.of(WORKER)
        found = {
            "MASTER_PORT": str((master or replica).port),
            "MASTER_ADDR": address(MASTER, 0),
            "WORLD_SIZE": str(self.job.total),
            "RANK": "0" if replica.type == MASTER else NEXT_INDEX,
            "PYTHONUNBUFFERED": "1",
        }
        if workers is not None and self.job.total > 1:
            found["WORKER_PORT"] = str(workers.port)
            found["WORKER_ADDRS"] = ",".join(address(WORKER, index) for index in range(workers.count))
        return found

    def finished(self, replica: Replica, role: Json) -> Json:  # noqa: ARG002 - nothing differs by type
        return role

    def notes(self) -> Iterator[str]:
        return iter(())
