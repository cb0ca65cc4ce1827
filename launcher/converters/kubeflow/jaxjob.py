"""Converts JAXJobs, with the variables for jax.distributed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import INDEX, address, framework_for
from launcher.converters.kubeflow.job_spec import JobFamily, KubeflowJob, ReplicaSpec, read_job
from launcher.core.errors import FieldError, InvalidObject

Json = dict[str, Any]

WORKER = "worker"
JAXJOBS = JobFamily(
    kind="JAXJob",
    versions=("kubeflow.org/v1",),
    field="jaxReplicaSpecs",
    operator="jaxjob-controller",
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    chiefs=(),
    deciding=(WORKER,),
)


def convert(obj: Json) -> Conversion:
    """
    Converts a JAXJob to a Framework.

    Raises InvalidObject with all errors and unsupported fields.
    """
    errors: list[FieldError] = []
    job, spec = read_job(obj, JAXJOBS, errors)
    spec.finish()
    if errors:
        raise InvalidObject(tuple(errors))
    return framework_for(job, _JaxSemantics(job))


@dataclass(frozen=True, slots=True)
class _JaxSemantics:
    """Completion and variables of a JAXJob."""

    job: KubeflowJob

    def completion(self, replica: ReplicaSpec) -> Json:
        """Any failure fails the job; success of all workers completes it."""
        return {"minFailedTaskCount": 1, "minSucceededTaskCount": replica.count or -1}

    def variables(self, replica: ReplicaSpec) -> Mapping[str, str]:
        return {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": str(replica.port),
            "COORDINATOR_ADDRESS": address(WORKER, 0),
            "NUM_PROCESSES": str(self.job.total),
            "PROCESS_ID": INDEX,
        }

    def extend_role(self, replica: ReplicaSpec, role: Json) -> Json:  # noqa: ARG002 - nothing differs by type
        return role

    def notes(self) -> Iterator[str]:
        return iter(())
