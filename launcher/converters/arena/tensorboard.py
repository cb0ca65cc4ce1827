"""A TensorBoard beside the job: a role that decides nothing, and is reached from outside by a Service."""

from typing import Any

from launcher.converters.arena import labels, volumes
from launcher.converters.arena.affinity import near
from launcher.converters.arena.job_spec import ArenaJob
from launcher.core.pods.services import ANNOTATION, ServiceMode

Json = dict[str, Any]

ROLE = "tensorboard"
_PORT = 6006
#: Where it finds logs that the job writes to the node.
_LOCAL = "/output/training_logs"


def logs_mount(job: ArenaJob, type_: str) -> list[Json]:
    """Where a role writes logs that are kept on the node only: the chief, or else the workers."""
    if not _is_local(job) or type_ != _writer(job):
        return []
    return [{"name": volumes.LOGS, "mountPath": job.given.text("logdir")}]


def role(job: ArenaJob, common: Json) -> Json:
    """The role, its pod with what all pods have in *common*."""
    local = _is_local(job)
    container = {
        "name": ROLE,
        "image": job.given.text("tensorboard-image"),
        "command": [ROLE, "--logdir", _LOCAL if local else job.given.text("logdir"), "--host", "0.0.0.0"],  # noqa: S104 - a Service leads to it
        "ports": [{"name": ROLE, "containerPort": _PORT}],
        "volumeMounts": [
            *volumes.claim_mounts(job),
            *([{"name": volumes.LOGS, "mountPath": _LOCAL}] if local else []),
        ],
    }
    spec = {
        **common,
        "restartPolicy": "Always",
        "containers": [container],
        "volumes": [*volumes.claim_volumes(job), *([volumes.logs_volume(job)] if local else [])],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [near(job.name, _writer(job), 0)]
            }
        },
    }
    metadata = {
        "labels": {**labels.job_labels(job), "role": ROLE},
        "annotations": {ANNOTATION: ServiceMode.NODE_PORT.value},
    }
    return {
        "name": ROLE,
        "taskNumber": 1,
        "background": True,
        "task": {
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": -2},
            "pod": {"metadata": metadata, "spec": spec},
        },
    }


def _is_local(job: ArenaJob) -> bool:
    """Whether nothing but the node keeps the logs: they are at no claim's path, nor at another server."""
    directory = job.given.text("logdir")
    claimed = any(directory.startswith(path) for path in job.claims.values())
    return job.given.is_on("tensorboard") and directory.startswith("/") and not claimed


def _writer(job: ArenaJob) -> str:
    return "chief" if job.has("chief") else "worker"
