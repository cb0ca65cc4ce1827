"""A JAXJob into a Framework, and what its tasks are told for jax.distributed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import INDEX, address, framework_for
from launcher.converters.kubeflow.job_spec import JobFamily, KubeflowJob, Replica, read_job
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


def framework_of(obj: Json) -> Conversion:
    """
    The Framework that does what the JAXJob asks for.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[FieldError] = []
    job, spec = read_job(obj, JAXJOBS, problems)
    spec.finish()
    if problems:
        raise InvalidObject(tuple(problems))
    return framework_for(job, _JaxManner(job))


@dataclass(frozen=True, slots=True)
class _JaxManner:
    """How the workers of a JAXJob end it, and what they know of each other."""

    job: KubeflowJob

    def completion(self, replica: Replica) -> Json:
        """Any failure ends the job, and so does the success of all."""
        return {"minFailedTaskCount": 1, "minSucceededTaskCount": replica.count or -1}

    def variables(self, replica: Replica) -> Mapping[str, str]:
        return {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": str(replica.port),
            "COORDINATOR_ADDRESS": address(WORKER, 0),
            "NUM_PROCESSES": str(self.job.total),
            "PROCESS_ID": INDEX,
        }

    def finished(self, replica: Replica, role: Json) -> Json:  # noqa: ARG002 - nothing differs by type
        return role

    def notes(self) -> Iterator[str]:
        return iter(())
