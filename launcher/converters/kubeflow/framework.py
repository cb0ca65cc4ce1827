"""Converts jobs of Kubeflow to Frameworks: replica types become task roles."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.job_spec import KubeflowJob, ReplicaSpec
from launcher.core.errors import InvalidObject
from launcher.core.json_access import as_objects
from launcher.core.names import API_VERSION, KIND, PodIdentityKey
from launcher.core.pods.services import SERVICES_ANNOTATION, ServiceMode
from launcher.core.validation.field_errors import forbidden

Json = dict[str, Any]

LABEL = "training.kubeflow.org/"
#: Retryable exit codes of restartPolicy ExitCode: those of signals. Old operators had only four.
_EXIT_CODES, _OLD_EXIT_CODES = "128-255", "130,137-138,143"
#: Bytes of all environment variables that name other replicas; each container has its own copy.
_MAX_VARIABLE_BYTES = 8 * 1024 * 1024
INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"
#: The index plus one: the rank of workers after one master.
NEXT_INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}+1}}}}"
NAME = f"{{{{{PodIdentityKey.FRAMEWORK_NAME}}}}}"


class JobSemantics(Protocol):
    """The behaviour of one job kind."""

    def completion(self, replica: ReplicaSpec) -> Json:
        """The completion policy of replicas of that type."""
        ...

    def variables(self, replica: ReplicaSpec) -> Mapping[str, str]:
        """The environment variables of such replicas; values may contain placeholders."""
        ...

    def extend_role(self, replica: ReplicaSpec, role: Json) -> Json:
        """The role of such replicas with additions of the kind."""
        ...

    def notes(self) -> Iterator[str]:
        """Notes about differences in behaviour."""
        ...


def address(type_: str, index: int) -> str:
    """The host name of a task, such as ``mnist-master-0``, with a placeholder for the name of the job."""
    return f"{NAME}-{type_}-{index}"


def start_after(job: KubeflowJob, role: Json, type_: str) -> Json:
    """The role with ``startAfter`` all tasks of *type_*; unchanged for gangs, which start together."""
    if job.gang is not None or job.replica(type_) is None:
        return role
    head = {"name": role["name"], "taskNumber": role["taskNumber"]}
    return {**head, "startAfter": [{"role": type_, "condition": "Running"}], **role}


def framework_for(job: KubeflowJob, semantics: JobSemantics) -> Conversion:
    """
    The Framework of a job, with notes about differences in behaviour.

    Raises InvalidObject when the environment variables of all containers exceed the limit.
    """
    _check_size(job, semantics)
    spec = {
        "executionType": "Create" if job.suspended else "Start",
        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
        "gang": job.gang,
        "activeDeadlineSeconds": job.deadline,
        "ttlSecondsAfterFinished": job.ttl,
        "cleanPodPolicy": job.clean_pod_policy,
        "taskRoles": [_role(job, replica, semantics) for replica in job.replicas],
    }
    framework = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": job.metadata,
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    return Conversion(framework, tuple(_notes(job, semantics)))


def _check_size(job: KubeflowJob, semantics: JobSemantics) -> None:
    """Raises InvalidObject when the variables with peers exceed _MAX_VARIABLE_BYTES in all containers."""
    size = 0
    for replica in job.replicas:
        containers = sum(
            map(partial(_gets_variables, job), as_objects(replica.template["spec"]["containers"]))
        )
        size += containers * sum(map(len, semantics.variables(replica).values()))
        if size > _MAX_VARIABLE_BYTES:
            reason = (
                f"the environment variables with the addresses of {job.total} replicas exceed "
                f"{_MAX_VARIABLE_BYTES} bytes in all containers; use fewer replicas or fewer containers"
            )
            raise InvalidObject((forbidden(f"spec.{job.family.field}", reason),))


def _gets_variables(job: KubeflowJob, container: Any) -> bool:
    """Whether the container gets the variables with its peers."""
    return isinstance(container, dict) and (job.family.all_containers or job.family.is_main(container))


def _role(job: KubeflowJob, replica: ReplicaSpec, semantics: JobSemantics) -> Json:
    restart, retries = _restart(job, replica.restart)
    decides = replica.type in job.family.deciding
    counts = (
        {"frameworkAttemptCompletionPolicy": semantics.completion(replica)}
        if decides
        else {"background": True}
    )
    role = {
        "name": replica.type,
        "taskNumber": replica.count,
        **counts,
        "task": {
            "retryPolicy": retries,
            "pod": _pod(job, replica, restart, semantics),
        },
    }
    return semantics.extend_role(replica, role)


def _restart(job: KubeflowJob, policy: str) -> tuple[str, Json]:
    """The restartPolicy of the pod, and the retryPolicy of its task."""
    if policy == "Never":
        return "Never", _retries(0)
    if policy == "ExitCode":
        # Only current operators retry a pod without an exit code, such as an evicted one.
        codes = _OLD_EXIT_CODES if job.is_old else _EXIT_CODES
        return "Never", {**_retries(-1, fancy=not job.is_old), "retryableExitCodes": codes}
    if policy == "OnFailure" and job.backoff is not None:
        # Restarts in place are not counted.
        return "Never", _retries(job.backoff)
    return policy, _retries(-1)


def _retries(maximum: int, *, fancy: bool = False) -> Json:
    return {"fancyRetryPolicy": fancy, "maxRetryCount": maximum}


def _pod(job: KubeflowJob, replica: ReplicaSpec, restart: str, semantics: JobSemantics) -> Json:
    metadata, spec = replica.template.get("metadata") or {}, replica.template["spec"]
    labels = {**(metadata.get("labels") or {}), **_labels(job, replica)}
    # A Service per task, with the same name as with the operator.
    annotations = {SERVICES_ANNOTATION: ServiceMode.PER_TASK.value, **(metadata.get("annotations") or {})}
    variables = semantics.variables(replica)
    containers = [_with_peers(container, job, replica, variables) for container in spec["containers"]]
    priority = {} if job.priority_class is None else {"priorityClassName": job.priority_class}
    return {
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        "spec": {**priority, **spec, "restartPolicy": restart, "containers": containers},
    }


def _labels(job: KubeflowJob, replica: ReplicaSpec) -> Json:
    values = {
        "operator-name": job.family.operator,
        "job-name": NAME,
        "replica-type": replica.type,
        "replica-index": INDEX,
    }
    if replica.type in job.family.chiefs:
        values["job-role"] = "master"
    return {LABEL + name: value for name, value in values.items()}


def _with_peers(container: Any, job: KubeflowJob, replica: ReplicaSpec, variables: Mapping[str, str]) -> Any:
    """The container with the port for its peers, and with the variables."""
    family = job.family
    if not _gets_variables(job, container):
        return container
    ports, env = container.get("ports") or [], container.get("env") or []
    if not isinstance(ports, list) or not isinstance(env, list):
        return container  # an error of the pod
    if family.is_main(container) and not any(
        port.get("name") == family.port_name for port in as_objects(ports)
    ):
        ports = [*ports, {"name": family.port_name, "containerPort": replica.port}]
    remaining = [port for port in env if port not in _overridden(container, variables)]
    env = [*remaining, *({"name": name, "value": value} for name, value in variables.items())]
    return {**container, **({"ports": ports} if ports else {}), **({"env": env} if env else {})}


def _overridden(container: Json, variables: Mapping[str, str]) -> list[Json]:
    """Variables of the template that are overridden."""
    # A name that is not a string is an error of the pod.
    return [
        variable
        for variable in as_objects(container.get("env"))
        if isinstance(name := variable.get("name"), str) and name in variables
    ]


def _notes(job: KubeflowJob, semantics: JobSemantics) -> Iterator[str]:
    for replica in job.replicas:
        yield from _replica_notes(job, replica, semantics)
    if job.suspended:
        yield "suspend: the job starts when suspend is false; a converted Framework starts with: launcher start NAME"
    yield from semantics.notes()


def _replica_notes(job: KubeflowJob, replica: ReplicaSpec, semantics: JobSemantics) -> Iterator[str]:
    spec, family = replica.template["spec"], job.family
    policy = spec.get("restartPolicy")
    if policy not in (None, replica.restart):
        yield f"{replica.type}: restartPolicy {policy} of the pod is overridden by {replica.restart} of the replicas"
    if job.backoff is not None and replica.restart == "OnFailure":
        yield (
            f"{replica.type}: backoffLimit {job.backoff} applies to each task, not to the job, and each retry is "
            "a new pod"
        )
    if job.backoff is not None and replica.restart == "Always":
        yield f"{replica.type}: backoffLimit {job.backoff} does not apply to pods with restartPolicy Always"
    if replica.type not in family.deciding:
        yield f"{replica.type}: not a replica type of {family.kind}; its tasks do not affect the result"
    containers = [each for each in as_objects(spec["containers"]) if _gets_variables(job, each)]
    variables = semantics.variables(replica)
    for name in dict.fromkeys(
        each["name"] for container in containers for each in _overridden(container, variables)
    ):
        yield f"{replica.type}: {name} of the template is overridden by the value for its peers"
