"""A TFJob into a Framework: its types are the roles, and what decides about the job decides about the attempt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import LABEL, framework_for
from launcher.converters.kubeflow.job_spec import JobFamily, KubeflowJob, Replica, read_job
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.names import PodIdentityKey
from launcher.core.pods.dns_overlay import FIRST_LABELS
from launcher.core.pods.peer_variables import task_of, tf_config

Json = dict[str, Any]

CHIEFS = ("chief", "master")
CONTAINER, PORT_NAME, PORT = "tensorflow", "tfjob-port", 2222
#: Versions whose operators kept running pods no longer than the job, and told nobody of evaluators.
OLD_VERSIONS = (
    "kubeflow.org/v1alpha1",
    "kubeflow.org/v1alpha2",
    "kubeflow.org/v1beta1",
    "kubeflow.org/v1beta2",
)
VERSIONS = ("kubeflow.org/v1", *OLD_VERSIONS)
TFJOBS = JobFamily(
    kind="TFJob",
    versions=VERSIONS,
    field="tfReplicaSpecs",
    operator="tfjob-controller",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=PORT,
    chiefs=CHIEFS,
    # What the operator looks at; others it starts, and that is all.
    deciding=("chief", "master", "worker", "ps", "evaluator"),
    others=True,
    tells_all=False,
    old_versions=OLD_VERSIONS,
)


@dataclass(frozen=True, slots=True)
class TfJob:
    """A TFJob with nothing left open."""

    job: KubeflowJob
    all_workers: bool
    dynamic: bool


def read_tfjob(obj: Json, problems: list[FieldError]) -> TfJob:
    """What *obj* asks for, as far as it can be understood; the rest is in *problems*."""
    job, spec = read_job(obj, TFJOBS, problems)
    all_workers = spec.word("successPolicy", ("", "AllWorkers"), "") == "AllWorkers"
    dynamic = bool(spec.take("enableDynamicWorker", bool))
    spec.finish()
    return TfJob(job, all_workers, dynamic)


_INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"
_NAME = f"{{{{{PodIdentityKey.FRAMEWORK_NAME}}}}}"
_NAMESPACE = f"{{{{{PodIdentityKey.FRAMEWORK_NAMESPACE}}}}}"
_EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class TfPeers:
    """The tasks of one type: how many there are, and where each listens."""

    type: str
    count: int
    port: int

    def address(self, index: int | str, domain: str) -> str:
        """``mnist-worker-0.default.svc:2222``; *domain* is the cluster's, if it is to be named."""
        return f"{_NAME}-{self.type}-{index}.{_NAMESPACE}.svc{domain and f'.{domain}'}:{self.port}"

    def addresses(self, domain: str) -> list[str]:
        return [self.address(index, domain) for index in range(self.count)]


def dense(peers: Sequence[TfPeers], type_: str, *, domain: str = "", evaluators: bool = True) -> str:
    """What tasks of *type_* are told: all tasks, and their own place. Old operators left *evaluators* out."""
    listed = [each for each in peers if evaluators or each.type != _EVALUATOR]
    return tf_config({each.type: each.addresses(domain) for each in listed}, type_, _INDEX)


def sparse(peers: Iterable[TfPeers], type_: str, *, domain: str = "") -> str:
    """The same where workers come and go: a worker knows itself and the parameter servers, those only themselves."""
    workers: dict[str, str] = {}
    servers: list[str] = []
    for each in peers:
        own = each.address(_INDEX, domain)
        if each.type == type_ == "worker":
            workers = {_INDEX: own}
        elif each.type == "ps" and type_ in ("worker", "ps"):
            servers = [own] if type_ == "ps" else each.addresses(domain)
    cluster = f'{{"worker":{_written(workers)},"ps":{_written(servers)}}}'
    return f'{{"cluster":{cluster},"task":{task_of(type_, _INDEX)}}}'


def _written(value: object) -> str:
    return orjson.dumps(value).decode()


_VARIABLE = "TF_CONFIG"


def framework_of(obj: Json, *, domain: str = "") -> Conversion:
    """
    The Framework that does what the TFJob asks for; *domain* is the cluster's, if TF_CONFIG is to name it.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[FieldError] = []
    tfjob = read_tfjob(obj, problems)
    if problems:
        raise InvalidObject(tuple(problems))
    return framework_for(tfjob.job, _TfManner(tfjob, domain))


@dataclass(frozen=True, slots=True)
class _TfManner:
    """How the replicas of a TFJob end it, and what they know of each other."""

    tfjob: TfJob
    domain: str

    def completion(self, replica: Replica) -> Json:
        """Any failure ends the job; the chief's success does, or else that of worker 0 or of all workers."""
        policy: Json = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
        if replica.type in CHIEFS:
            policy["minSucceededTaskCount"] = replica.count or -1
        if replica.type == "worker":
            policy["minFailedTaskCount"] = -1 if self.tfjob.dynamic else 1
            if self.tfjob.job.chief is None:
                policy["minSucceededTaskCount"] = replica.count or -1
                if replica.count and not self.tfjob.all_workers:
                    policy["succeededIndexes"] = "0"
        return policy

    def variables(self, replica: Replica) -> Mapping[str, str]:
        """TF_CONFIG for the tasks of that type; none where the operator sets none: a task alone has nobody to find."""
        job = self.tfjob.job
        if job.total == 1 and not job.is_old:
            return {}
        peers = [
            TfPeers(each.type, each.count, each.port)
            for each in job.replicas
            if each.type in job.family.deciding
        ]
        if self.tfjob.dynamic:
            return {_VARIABLE: sparse(peers, replica.type, domain=self.domain)}
        return {_VARIABLE: dense(peers, replica.type, domain=self.domain, evaluators=not job.is_old)}

    def finished(self, replica: Replica, role: Json) -> Json:
        """The role; where there is no chief, worker 0 is labelled in its place."""
        if self.tfjob.job.chief is not None or replica.type != "worker":
            return role
        metadata = role["task"]["pod"]["metadata"]
        labels = [metadata["annotations"].get(FIRST_LABELS), f"{LABEL}job-role=master"]
        annotations = {**metadata["annotations"], FIRST_LABELS: ",".join(filter(None, labels))}
        pod = {**role["task"]["pod"], "metadata": {**metadata, "annotations": annotations}}
        return {**role, "task": {**role["task"], "pod": pod}}

    def notes(self) -> Iterator[str]:
        types = [replica.type for replica in self.tfjob.job.replicas]
        if not any(each in types for each in (*CHIEFS, "worker")):
            yield "there is neither chief nor worker: it has succeeded when every task has ended, not never"
