"""A TFJob into a Framework: its types are the roles, and what decides about the job decides about the attempt."""

from collections.abc import Iterator
from typing import Any

from launcher.core.errors import InvalidObject, Problem
from launcher.core.names import API_VERSION, KIND, Mark
from launcher.intake.mapped import Mapped
from launcher.intake.tfconfig import Peers, dense, sparse
from launcher.intake.tfspec import CHIEFS, PORT_NAME, Replica, TfJob, is_main, objects_in, read_tfjob

Json = dict[str, Any]

#: What the operator looks at; others it starts, and that is all.
_DECIDING = ("chief", "master", "worker", "ps", "evaluator")
_LABEL = "training.kubeflow.org/"
_VARIABLE = "TF_CONFIG"


def framework_of(obj: Json, *, domain: str = "") -> Mapped:
    """
    The Framework that does what the TFJob asks for; *domain* is the cluster's, if TF_CONFIG is to name it.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[Problem] = []
    job = read_tfjob(obj, problems)
    if problems:
        raise InvalidObject(tuple(problems))
    spec = {
        "executionType": "Create" if job.suspended else "Start",
        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
        "gang": job.gang,
        "activeDeadlineSeconds": job.deadline,
        "ttlSecondsAfterFinished": job.ttl,
        "cleanPodPolicy": job.clean,
        "taskRoles": [_role(job, replica, domain) for replica in job.replicas],
    }
    framework = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": job.metadata,
        "spec": {name: value for name, value in spec.items() if value is not None},
    }
    return Mapped(framework, tuple(_notes(job)))


def _role(job: TfJob, replica: Replica, domain: str) -> Json:
    restart, retries = _restart(replica.restart, job.backoff)
    counts = {"frameworkAttemptCompletionPolicy": _completion(job, replica)}
    return {
        "name": replica.type,
        "taskNumber": replica.count,
        **(counts if replica.type in _DECIDING else {"background": True}),
        "task": {
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": retries},
            "pod": _pod(job, replica, restart, domain),
        },
    }


def _restart(policy: str, backoff: int | None) -> tuple[str, int]:
    """The pod's restartPolicy, and how often its task is tried again."""
    if policy == "Never":
        return "Never", 0
    if policy == "OnFailure" and backoff is not None:
        # In place, nobody would count them.
        return "Never", backoff
    return policy, -1


def _completion(job: TfJob, replica: Replica) -> Json:
    """Any failure ends the job; the chief's success does, or else that of worker 0 or of all workers."""
    policy: Json = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
    has_chief = any(each.type in CHIEFS for each in job.replicas)
    if replica.type in CHIEFS:
        policy["minSucceededTaskCount"] = replica.count or -1
    if replica.type == "worker":
        policy["minFailedTaskCount"] = -1 if job.dynamic else 1
        if not has_chief:
            policy["minSucceededTaskCount"] = replica.count or -1
            if replica.count and not job.all_workers:
                policy["succeededIndexes"] = "0"
    return policy


def _pod(job: TfJob, replica: Replica, restart: str, domain: str) -> Json:
    metadata, spec = replica.template.get("metadata") or {}, replica.template["spec"]
    labels = {**(metadata.get("labels") or {}), **_labels(replica)}
    config = _config(job, replica, domain)
    containers = [_told(each, replica.port, config) if is_main(each) else each for each in spec["containers"]]
    return {
        "metadata": {**metadata, "labels": labels},
        "spec": {**spec, "restartPolicy": restart, "containers": containers},
    }


def _labels(replica: Replica) -> Json:
    marks = {
        "operator-name": "tfjob-controller",
        "job-name": f"{{{{{Mark.FRAMEWORK_NAME}}}}}",
        "replica-type": replica.type,
        "replica-index": f"{{{{{Mark.TASK_INDEX}}}}}",
    }
    if replica.type in CHIEFS:
        marks["job-role"] = "master"
    return {_LABEL + name: value for name, value in marks.items()}


def _config(job: TfJob, replica: Replica, domain: str) -> str | None:
    """TF_CONFIG for the tasks of that type; None where the operator sets none: a task alone has nobody to find."""
    known = [each for each in job.replicas if each.type in _DECIDING]
    if sum(each.count for each in known) == 1 and not job.is_old:
        return None
    peers = [Peers(each.type, each.count, each.port) for each in known]
    if job.dynamic:
        return sparse(peers, replica.type, domain=domain)
    return dense(peers, replica.type, domain=domain, evaluators=not job.is_old)


def _told(container: Json, port: int, config: str | None) -> Json:
    """The container with the port that its peers use, and with what it is told about them."""
    ports, variables = container.get("ports") or [], container.get("env") or []
    if not isinstance(ports, list) or not isinstance(variables, list):
        return container  # the rules for pods refuse it
    if not any(each.get("name") == PORT_NAME for each in objects_in(ports)):
        ports = [*ports, {"name": PORT_NAME, "containerPort": port}]
    if config is not None:
        others = [each for each in variables if each not in _own(container)]
        variables = [*others, {"name": _VARIABLE, "value": config}]
    return {**container, "ports": ports, **({"env": variables} if variables else {})}


def _own(container: Json) -> list[Json]:
    """What the template itself says about TF_CONFIG."""
    return [each for each in objects_in(container.get("env")) if each.get("name") == _VARIABLE]


def _notes(job: TfJob) -> Iterator[str]:
    types = [replica.type for replica in job.replicas]
    for replica in job.replicas:
        yield from _replica_notes(job, replica)
    if job.suspended:
        yield "suspend: it is not begun until somebody starts it (launcher start); one that runs cannot be suspended"
    if not any(each in types for each in (*CHIEFS, "worker")):
        yield "there is neither chief nor worker: it has succeeded when every task has ended, not never"
    if not any(each in types for each in CHIEFS) and "worker" in types:
        yield f"no pod has the label {_LABEL}job-role=master: there is no chief, and all workers have the same labels"


def _replica_notes(job: TfJob, replica: Replica) -> Iterator[str]:
    spec = replica.template["spec"]
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
    if replica.type not in _DECIDING:
        yield f"{replica.type}: not a type of TFJob's, so its tasks run but decide nothing"
    if (
        any(_own(each) for each in spec["containers"] if is_main(each))
        and _config(job, replica, "") is not None
    ):
        yield f"{replica.type}: {_VARIABLE} of the template gives way to the one that names its peers"
