"""Converts PyTorchJobs, with the variables for torchrun and torch.distributed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion, Fields
from launcher.converters.kubeflow.framework import NEXT_INDEX, address, framework_for, start_after
from launcher.converters.kubeflow.job_spec import (
    JobFamily,
    KubeflowJob,
    ReplicaSpec,
    check_single_replica,
    read_job,
)
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.json_access import as_objects

Json = dict[str, Any]

MASTER, WORKER = "master", "worker"
PYTORCHJOBS = JobFamily(
    kind="PyTorchJob",
    versions=("kubeflow.org/v1",),
    field="pytorchReplicaSpecs",
    operator="pytorchjob-controller",
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    chiefs=(MASTER,),
    deciding=(MASTER, WORKER),
    restart="OnFailure",
)


@dataclass(frozen=True, slots=True)
class _Elastic:
    """The elasticPolicy of a job."""

    minimum: int | None
    maximum: int | None
    processes: str | None
    endpoint: str | None
    port: int | None
    backend: str
    restarts: int | None
    id: str | None
    conf: str
    standalone: bool


def convert(obj: Json) -> Conversion:
    """
    Converts a PyTorchJob to a Framework.

    Raises InvalidObject with all errors and unsupported fields.
    """
    errors: list[FieldError] = []
    job, spec = read_job(obj, PYTORCHJOBS, errors)
    processes = spec.text_or_number("nprocPerNode")
    elastic = _elastic(spec.inner("elasticPolicy")) if "elasticPolicy" in spec else None
    spec.finish()
    check_single_replica(job, MASTER, errors, is_required=False)
    if errors:
        raise InvalidObject(tuple(errors))
    return framework_for(job, _TorchSemantics(job, processes, elastic))


def _elastic(fields: Fields) -> _Elastic:
    conf = [
        (str(entry.get("key", "")), str(entry.get("value", "")))
        for entry in as_objects(fields.take("rdzvConf", list) or [])
    ]
    elastic = _Elastic(
        minimum=fields.count("minReplicas"),
        maximum=fields.count("maxReplicas"),
        processes=fields.text_or_number("nProcPerNode"),
        endpoint=fields.take("rdzvHost", str),
        port=fields.count("rdzvPort"),
        backend=fields.take("rdzvBackend", str) or "c10d",
        restarts=fields.count("maxRestarts"),
        id=fields.take("rdzvId", str),
        conf=",".join(f"{key}={value}" for key, value in conf),
        standalone=bool(fields.take("standalone", bool)),
    )
    fields.finish()
    return elastic


@dataclass(frozen=True, slots=True)
class _TorchSemantics:
    """Completion, start order and variables of a PyTorchJob."""

    job: KubeflowJob
    processes: str | None
    elastic: _Elastic | None

    def completion(self, replica: ReplicaSpec) -> Json:
        """Any failure fails the job. Success of the master completes it, or of all workers, or of any elastic one."""
        decides = replica.type == MASTER or self.job.chief is None
        enough = 1 if self.elastic is not None and replica.type == WORKER else replica.count
        return {"minFailedTaskCount": 1, "minSucceededTaskCount": (enough or -1) if decides else -1}

    def variables(self, replica: ReplicaSpec) -> Mapping[str, str]:
        """The variables in the order of the operator."""
        return {"PYTHONUNBUFFERED": "1", **self._rank(replica), **self._torchrun()}

    def _rank(self, replica: ReplicaSpec) -> Mapping[str, str]:
        master = self.job.chief
        if master is None:
            return {}
        port, host = str(master.port), address(MASTER, 0)
        rank = "0" if replica.type == MASTER else NEXT_INDEX
        processes = int(self.processes) if self.processes and self.processes.isdecimal() else 1
        return {
            "MASTER_PORT": port,
            "PET_MASTER_PORT": port,
            "MASTER_ADDR": host,
            "PET_MASTER_ADDR": host,
            "WORLD_SIZE": str(self.job.total * processes),
            "RANK": rank,
            "PET_NODE_RANK": rank,
        }

    def _torchrun(self) -> Mapping[str, str]:
        if self.elastic is None:
            return {"PET_NPROC_PER_NODE": self.processes or "auto", "PET_NNODES": str(self.job.total)}
        elastic, workers = self.elastic, self.job.replica(WORKER)
        count, port = (workers.count, workers.port) if workers else (0, PYTORCHJOBS.port)
        minimum = count if elastic.minimum is None else elastic.minimum
        maximum = count if elastic.maximum is None else elastic.maximum
        variables = {
            "PET_NPROC_PER_NODE": elastic.processes or self.processes or "auto",
            "PET_RDZV_ENDPOINT": f"{elastic.endpoint or address(WORKER, 0)}:{elastic.port or port}",
            "PET_RDZV_BACKEND": elastic.backend,
            "PET_NNODES": f"{minimum}:{maximum}",
            "PET_MAX_RESTARTS": None if elastic.restarts is None else str(elastic.restarts),
            "PET_RDZV_ID": elastic.id,
            "PET_RDZV_CONF": elastic.conf or None,
            "PET_STANDALONE": "" if elastic.standalone else None,
        }
        return {name: value for name, value in variables.items() if value is not None}

    def extend_role(self, replica: ReplicaSpec, role: Json) -> Json:
        return start_after(self.job, role, MASTER) if replica.type == WORKER else role

    def notes(self) -> Iterator[str]:
        if self.elastic is not None:
            yield "elasticPolicy: the number of workers does not change by itself; use: launcher scale"
        if self.job.chief is not None and self.job.replica(WORKER) is not None:
            yield (
                "init-pytorch: a gang starts all pods at once, so workers have to retry until the master is reachable"
                if self.job.gang is not None
                else "init-pytorch: workers start when the master is running, instead of waiting for its name"
            )
