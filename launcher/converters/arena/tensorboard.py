"""The background role of TensorBoard, with a NodePort Service."""

from typing import Any

from launcher.converters.arena import labels, volumes
from launcher.converters.arena.affinity import affinity_term
from launcher.converters.arena.job_spec import ArenaJob
from launcher.core.pods.services import SERVICES_ANNOTATION, ServiceMode

Json = dict[str, Any]

ROLE = "tensorboard"
_PORT = 6006
#: Mount path of logs in a host directory.
_LOCAL = "/output/training_logs"


def logs_mount(job: ArenaJob, type_: str) -> list[Json]:
    """The mount for logs in a host directory, of the role that writes them: the chief, or else the workers."""
    if not _is_local(job) or type_ != _writer(job):
        return []
    return [{"name": volumes.LOGS, "mountPath": job.flags.text("logdir")}]


def role(job: ArenaJob, common: Json) -> Json:
    """The role; *common* are pod fields of all roles."""
    local = _is_local(job)
    container = {
        "name": ROLE,
        "image": job.flags.text("tensorboard-image"),
        "command": [ROLE, "--logdir", _LOCAL if local else job.flags.text("logdir"), "--host", "0.0.0.0"],  # noqa: S104 - a Service leads to it
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
                "requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(job.name, _writer(job), 0)]
            }
        },
    }
    metadata = {
        "labels": {**labels.job_labels(job), "role": ROLE},
        "annotations": {SERVICES_ANNOTATION: ServiceMode.NODE_PORT.value},
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
    """Whether the logs are in a host directory: on no claim and no remote storage."""
    directory = job.flags.text("logdir")
    claimed = any(directory.startswith(path) for path in job.claims.values())
    return job.flags.is_on("tensorboard") and directory.startswith("/") and not claimed


def _writer(job: ArenaJob) -> str:
    return "chief" if job.has("chief") else "worker"
