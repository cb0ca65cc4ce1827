"""The Framework that does what a job of Kubeflow's asks for: its types are the roles."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.job_spec import KubeflowJob, Replica, objects_in
from launcher.core.errors import InvalidObject
from launcher.core.names import API_VERSION, KIND, PodIdentityKey
from launcher.core.pods.services import ANNOTATION, ServiceMode
from launcher.core.validation.field_errors import forbidden

Json = dict[str, Any]

LABEL = "training.kubeflow.org/"
#: Exit codes after which a task is worth another try: a signal ended it. Operators of old had four of them.
_EXIT_CODES, _OLD_EXIT_CODES = "128-255", "130,137-138,143"
#: Bytes of all environment variables that name other replicas; each container has its own copy.
_MAX_VARIABLE_BYTES = 8 * 1024 * 1024
INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}}}}}"
#: One more than the index: the rank of workers that come after one master.
NEXT_INDEX = f"{{{{{PodIdentityKey.TASK_INDEX}+1}}}}"
NAME = f"{{{{{PodIdentityKey.FRAMEWORK_NAME}}}}}"


class JobSemantics(Protocol):
    """What a kind of job has in a way of its own."""

    def completion(self, replica: Replica) -> Json:
        """What tasks of that type decide about the attempt."""
        ...

    def variables(self, replica: Replica) -> Mapping[str, str]:
        """What containers of such tasks are told; texts may have placeholders."""
        ...

    def finished(self, replica: Replica, role: Json) -> Json:
        """The role of such tasks with what else it needs."""
        ...

    def notes(self) -> Iterator[str]:
        """What the job's user should know."""
        ...


def address(type_: str, index: int) -> str:
    """``mnist-master-0``, whatever the job will be called: where that task is found."""
    return f"{NAME}-{type_}-{index}"


def started_after(job: KubeflowJob, role: Json, type_: str) -> Json:
    """The role, begun when all tasks of *type_* run; but not where all have to be placed together."""
    if job.gang is not None or job.of(type_) is None:
        return role
    head = {"name": role["name"], "taskNumber": role["taskNumber"]}
    return {**head, "startAfter": [{"role": type_, "condition": "Running"}], **role}


def framework_for(job: KubeflowJob, manner: JobSemantics) -> Conversion:
    """
    The Framework, and a line for everything that no longer means quite the same.

    Raises InvalidObject when its environment variables would be too large together.
    """
    _check_size(job, manner)
    spec = {
        "executionType": "Create" if job.suspended else "Start",
        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
        "gang": job.gang,
        "activeDeadlineSeconds": job.deadline,
        "ttlSecondsAfterFinished": job.ttl,
        "cleanPodPolicy": job.clean,
        "taskRoles": [_role(job, replica, manner) for replica in job.replicas],
    }
    framework = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": job.metadata,
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    return Conversion(framework, tuple(_notes(job, manner)))


def _check_size(job: KubeflowJob, manner: JobSemantics) -> None:
    """Raise InvalidObject when what names the replicas takes more than _MAX_VARIABLE_BYTES in all containers."""
    size = 0
    for replica in job.replicas:
        containers = sum(map(partial(_is_told, job), objects_in(replica.template["spec"]["containers"])))
        size += containers * sum(map(len, manner.variables(replica).values()))
        if size > _MAX_VARIABLE_BYTES:
            why = (
                f"environment variables that name {job.total} replicas in every container take more than "
                f"{_MAX_VARIABLE_BYTES} bytes; use fewer replicas or fewer containers"
            )
            raise InvalidObject((forbidden(f"spec.{job.family.field}", why),))


def _is_told(job: KubeflowJob, container: Any) -> bool:
    """Whether the container has the variables that name the other replicas."""
    return isinstance(container, dict) and (job.family.tells_all or job.family.is_main(container))


def _role(job: KubeflowJob, replica: Replica, manner: JobSemantics) -> Json:
    restart, retries = _restart(job, replica.restart)
    decides = replica.type in job.family.deciding
    counts = (
        {"frameworkAttemptCompletionPolicy": manner.completion(replica)} if decides else {"background": True}
    )
    role = {
        "name": replica.type,
        "taskNumber": replica.count,
        **counts,
        "task": {
            "retryPolicy": retries,
            "pod": _pod(job, replica, restart, manner),
        },
    }
    return manner.finished(replica, role)


def _restart(job: KubeflowJob, policy: str) -> tuple[str, Json]:
    """The pod's restartPolicy, and how often its task is tried again."""
    if policy == "Never":
        return "Never", _retries(0)
    if policy == "ExitCode":
        # A pod without any, which was evicted, say, is tried again by today's operators alone.
        codes = _OLD_EXIT_CODES if job.is_old else _EXIT_CODES
        return "Never", {**_retries(-1, fancy=not job.is_old), "retryableExitCodes": codes}
    if policy == "OnFailure" and job.backoff is not None:
        # In place, nobody would count them.
        return "Never", _retries(job.backoff)
    return policy, _retries(-1)


def _retries(most: int, *, fancy: bool = False) -> Json:
    return {"fancyRetryPolicy": fancy, "maxRetryCount": most}


def _pod(job: KubeflowJob, replica: Replica, restart: str, manner: JobSemantics) -> Json:
    metadata, spec = replica.template.get("metadata") or {}, replica.template["spec"]
    labels = {**(metadata.get("labels") or {}), **_labels(job, replica)}
    # Each task is found under the name that it has with the operator.
    annotations = {ANNOTATION: ServiceMode.PER_TASK.value, **(metadata.get("annotations") or {})}
    variables = manner.variables(replica)
    containers = [_told(each, job, replica, variables) for each in spec["containers"]]
    urgency = {} if job.priority_class is None else {"priorityClassName": job.priority_class}
    return {
        "metadata": {**metadata, "labels": labels, "annotations": annotations},
        "spec": {**urgency, **spec, "restartPolicy": restart, "containers": containers},
    }


def _labels(job: KubeflowJob, replica: Replica) -> Json:
    marks = {
        "operator-name": job.family.operator,
        "job-name": NAME,
        "replica-type": replica.type,
        "replica-index": INDEX,
    }
    if replica.type in job.family.chiefs:
        marks["job-role"] = "master"
    return {LABEL + name: value for name, value in marks.items()}


def _told(container: Any, job: KubeflowJob, replica: Replica, variables: Mapping[str, str]) -> Any:
    """The container with the port that its peers use, and with what it is told about them."""
    family = job.family
    if not _is_told(job, container):
        return container
    ports, env = container.get("ports") or [], container.get("env") or []
    if not isinstance(ports, list) or not isinstance(env, list):
        return container  # the rules for pods refuse it
    if family.is_main(container) and not any(
        each.get("name") == family.port_name for each in objects_in(ports)
    ):
        ports = [*ports, {"name": family.port_name, "containerPort": replica.port}]
    kept = [each for each in env if each not in _overruled(container, variables)]
    env = [*kept, *({"name": name, "value": value} for name, value in variables.items())]
    return {**container, **({"ports": ports} if ports else {}), **({"env": env} if env else {})}


def _overruled(container: Json, variables: Mapping[str, str]) -> list[Json]:
    """What the template itself says about these variables."""
    # A name of another type than text is reported by the validation of the pod.
    return [
        each
        for each in objects_in(container.get("env"))
        if isinstance(name := each.get("name"), str) and name in variables
    ]


def _notes(job: KubeflowJob, manner: JobSemantics) -> Iterator[str]:
    for replica in job.replicas:
        yield from _replica_notes(job, replica, manner)
    if job.suspended:
        yield "suspend: it is not begun until that is false; a Framework alone, until it is started (launcher start)"
    yield from manner.notes()


def _replica_notes(job: KubeflowJob, replica: Replica, manner: JobSemantics) -> Iterator[str]:
    spec, family = replica.template["spec"], job.family
    written = spec.get("restartPolicy")
    if written not in (None, replica.restart):
        yield f"{replica.type}: restartPolicy {written} of the pod gives way to {replica.restart} of the replicas"
    if job.backoff is not None and replica.restart == "OnFailure":
        yield (
            f"{replica.type}: backoffLimit {job.backoff} is counted for each task, not for the job, and each retry is "
            "a new pod"
        )
    if job.backoff is not None and replica.restart == "Always":
        yield f"{replica.type}: backoffLimit {job.backoff} does not end pods that are restarted for ever (Always)"
    if replica.type not in family.deciding:
        yield f"{replica.type}: not a type of {family.kind}'s, so its tasks run but decide nothing"
    told = [each for each in objects_in(spec["containers"]) if _is_told(job, each)]
    variables = manner.variables(replica)
    for name in dict.fromkeys(
        each["name"] for container in told for each in _overruled(container, variables)
    ):
        yield f"{replica.type}: {name} of the template gives way to the one that names its peers"
