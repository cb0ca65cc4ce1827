"""A PyTorchJob into a Framework, and what its tasks are told for torchrun and torch.distributed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion, Fields
from launcher.converters.kubeflow.framework import NEXT_INDEX, address, framework_for, started_after
from launcher.converters.kubeflow.job_spec import (
    JobFamily,
    KubeflowJob,
    Replica,
    check_one,
    objects_in,
    read_job,
)
from launcher.core.errors import FieldError, InvalidObject

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
    """Workers that find each other at a meeting point, however many there are."""

    least: int | None
    most: int | None
    processes: str | None
    endpoint: str | None
    port: int | None
    backend: str
    restarts: int | None
    id: str | None
    conf: str
    standalone: bool


def framework_of(obj: Json) -> Conversion:
    """
    The Framework that does what the PyTorchJob asks for.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[FieldError] = []
    job, spec = read_job(obj, PYTORCHJOBS, problems)
    processes = spec.text_or_number("nprocPerNode")
    elastic = _elastic(spec.inner("elasticPolicy")) if "elasticPolicy" in spec else None
    spec.finish()
    check_one(job, MASTER, problems, needed=False)
    if problems:
        raise InvalidObject(tuple(problems))
    return framework_for(job, _TorchManner(job, processes, elastic))


def _elastic(fields: Fields) -> _Elastic:
    conf = [
        (str(each.get("key", "")), str(each.get("value", "")))
        for each in objects_in(fields.take("rdzvConf", list) or [])
    ]
    elastic = _Elastic(
        least=fields.count("minReplicas"),
        most=fields.count("maxReplicas"),
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
class _TorchManner:
    """How the replicas of a PyTorchJob end it, and what they know of each other."""

    job: KubeflowJob
    processes: str | None
    elastic: _Elastic | None

    def completion(self, replica: Replica) -> Json:
        """Any failure ends the job; the master's success does, or else that of all workers, or any elastic one."""
        decides = replica.type == MASTER or self.job.chief is None
        enough = 1 if self.elastic is not None and replica.type == WORKER else replica.count
        return {"minFailedTaskCount": 1, "minSucceededTaskCount": (enough or -1) if decides else -1}

    def variables(self, replica: Replica) -> Mapping[str, str]:
        """In the operator's order."""
        return {"PYTHONUNBUFFERED": "1", **self._rank(replica), **self._torchrun()}

    def _rank(self, replica: Replica) -> Mapping[str, str]:
        master = self.job.chief
        if master is None:
            return {}
        port, host = str(master.port), address(MASTER, 0)
        rank = "0" if replica.type == MASTER else NEXT_INDEX
        each = int(self.processes) if self.processes and self.processes.isdecimal() else 1
        return {
            "MASTER_PORT": port,
            "PET_MASTER_PORT": port,
            "MASTER_ADDR": host,
            "PET_MASTER_ADDR": host,
            "WORLD_SIZE": str(self.job.total * each),
            "RANK": rank,
            "PET_NODE_RANK": rank,
        }

    def _torchrun(self) -> Mapping[str, str]:
        if self.elastic is None:
            return {"PET_NPROC_PER_NODE": self.processes or "auto", "PET_NNODES": str(self.job.total)}
        elastic, workers = self.elastic, self.job.of(WORKER)
        count, port = (workers.count, workers.port) if workers else (0, PYTORCHJOBS.port)
        least, most = (count if given is None else given for given in (elastic.least, elastic.most))
        found = {
            "PET_NPROC_PER_NODE": elastic.processes or self.processes or "auto",
            "PET_RDZV_ENDPOINT": f"{elastic.endpoint or address(WORKER, 0)}:{elastic.port or port}",
            "PET_RDZV_BACKEND": elastic.backend,
            "PET_NNODES": f"{least}:{most}",
            "PET_MAX_RESTARTS": None if elastic.restarts is None else str(elastic.restarts),
            "PET_RDZV_ID": elastic.id,
            "PET_RDZV_CONF": elastic.conf or None,
            "PET_STANDALONE": "" if elastic.standalone else None,
        }
        return {name: value for name, value in found.items() if value is not None}

    def finished(self, replica: Replica, role: Json) -> Json:
        return started_after(self.job, role, MASTER) if replica.type == WORKER else role

    def notes(self) -> Iterator[str]:
        if self.elastic is not None:
            yield "elasticPolicy: there are as many workers as it says until somebody changes that (launcher scale)"
        if self.job.chief is not None and self.job.of(WORKER) is not None:
            yield (
                "init-pytorch: gang placement starts all pods at once, so workers have to try again until the master "
                "answers"
                if self.job.gang is not None
                else "init-pytorch: workers are started when the master runs, instead of waiting for its name"
            )
