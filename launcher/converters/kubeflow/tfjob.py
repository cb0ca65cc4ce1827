"""Converts TFJobs to Frameworks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import LABEL, framework_for
from launcher.converters.kubeflow.job_spec import JobFamily, KubeflowJob, ReplicaSpec, read_job
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.names import PodIdentityKey
from launcher.core.pods.dns_overlay import FIRST_LABELS_ANNOTATION
from launcher.core.pods.peer_variables import tf_config, tf_task

Json = dict[str, Any]

CHIEFS = ("chief", "master")
CONTAINER, PORT_NAME, PORT = "tensorflow", "tfjob-port", 2222
#: Versions whose operators deleted running pods with the job, and omitted evaluators from TF_CONFIG.
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
    # The operator starts replicas of other types, too, but ignores their results.
    deciding=("chief", "master", "worker", "ps", "evaluator"),
    allows_others=True,
    all_containers=False,
    old_versions=OLD_VERSIONS,
)


@dataclass(frozen=True, slots=True)
class TfJob:
    """A parsed TFJob."""

    job: KubeflowJob
    all_workers: bool
    dynamic: bool


def read_tfjob(obj: Json, errors: list[FieldError]) -> TfJob:
    """The parsed TFJob; errors are added to *errors*."""
    job, spec = read_job(obj, TFJOBS, errors)
    all_workers = spec.choice("successPolicy", ("", "AllWorkers"), "") == "AllWorkers"
    dynamic = bool(spec.take("enableDynamicWorker", bool))
    spec.finish()
    return TfJob(job, all_workers, dynamic)


_INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"
_NAME = f"{{{{{PodIdentityKey.FRAMEWORK_NAME}}}}}"
_NAMESPACE = f"{{{{{PodIdentityKey.FRAMEWORK_NAMESPACE}}}}}"
_EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True)
class TfPeers:
    """The number of replicas of one type, and their port."""

    type: str
    count: int
    port: int

    def address(self, index: int | str, domain: str) -> str:
        """``mnist-worker-0.default.svc:2222``; *domain* is that of the cluster, or empty."""
        return f"{_NAME}-{self.type}-{index}.{_NAMESPACE}.svc{domain and f'.{domain}'}:{self.port}"

    def addresses(self, domain: str) -> list[str]:
        return [self.address(index, domain) for index in range(self.count)]


def dense_tf_config(
    peers: Sequence[TfPeers], type_: str, *, domain: str = "", evaluators: bool = True
) -> str:
    """TF_CONFIG of replicas of *type_* with all replicas. Old operators omitted *evaluators*."""
    listed = [item for item in peers if evaluators or item.type != _EVALUATOR]
    return tf_config({item.type: item.addresses(domain) for item in listed}, type_, _INDEX)


def sparse_tf_config(peers: Iterable[TfPeers], type_: str, *, domain: str = "") -> str:
    """TF_CONFIG for dynamic workers: a worker has itself and the parameter servers, a server only itself."""
    workers: dict[str, str] = {}
    servers: list[str] = []
    for item in peers:
        own = item.address(_INDEX, domain)
        if item.type == type_ == "worker":
            workers = {_INDEX: own}
        elif item.type == "ps" and type_ in ("worker", "ps"):
            servers = [own] if type_ == "ps" else item.addresses(domain)
    cluster = f'{{"worker":{_json_text(workers)},"ps":{_json_text(servers)}}}'
    return f'{{"cluster":{cluster},"task":{tf_task(type_, _INDEX)}}}'


def _json_text(value: object) -> str:
    return orjson.dumps(value).decode()


_VARIABLE = "TF_CONFIG"


def convert(obj: Json, *, domain: str = "") -> Conversion:
    """
    Converts a TFJob to a Framework; *domain* is the cluster's domain in TF_CONFIG, or empty.

    Raises InvalidObject with all errors and unsupported fields.
    """
    errors: list[FieldError] = []
    tfjob = read_tfjob(obj, errors)
    if errors:
        raise InvalidObject(tuple(errors))
    return framework_for(tfjob.job, _TfSemantics(tfjob, domain))


@dataclass(frozen=True, slots=True)
class _TfSemantics:
    """Completion and variables of a TFJob."""

    tfjob: TfJob
    domain: str

    def completion(self, replica: ReplicaSpec) -> Json:
        """Any failure fails the job; success of the chief, or without one of worker 0 or all workers, completes it."""
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

    def variables(self, replica: ReplicaSpec) -> Mapping[str, str]:
        """TF_CONFIG of replicas of that type; as with the operator, a single replica has none."""
        job = self.tfjob.job
        if job.total == 1 and not job.is_old:
            return {}
        peers = [
            TfPeers(item.type, item.count, item.port)
            for item in job.replicas
            if item.type in job.family.deciding
        ]
        if self.tfjob.dynamic:
            return {_VARIABLE: sparse_tf_config(peers, replica.type, domain=self.domain)}
        return {
            _VARIABLE: dense_tf_config(peers, replica.type, domain=self.domain, evaluators=not job.is_old)
        }

    def extend_role(self, replica: ReplicaSpec, role: Json) -> Json:
        """The role; without a chief, worker 0 gets the label of the chief."""
        if self.tfjob.job.chief is not None or replica.type != "worker":
            return role
        metadata = role["task"]["pod"]["metadata"]
        labels = [metadata["annotations"].get(FIRST_LABELS_ANNOTATION), f"{LABEL}job-role=master"]
        annotations = {**metadata["annotations"], FIRST_LABELS_ANNOTATION: ",".join(filter(None, labels))}
        pod = {**role["task"]["pod"], "metadata": {**metadata, "annotations": annotations}}
        return {**role, "task": {**role["task"], "pod": pod}}

    def notes(self) -> Iterator[str]:
        types = [replica.type for replica in self.tfjob.job.replicas]
        if not any(item in types for item in (*CHIEFS, "worker")):
            yield "neither chief nor worker: the job succeeds when all tasks are completed; with the operator, never"
