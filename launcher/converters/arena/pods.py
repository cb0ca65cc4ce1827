"""The pod template of each role."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.converters.arena import labels, volumes
from launcher.converters.arena.affinity import affinity_of
from launcher.converters.arena.code_sync import init_container
from launcher.converters.arena.flag_parsers import GPU, pairs
from launcher.converters.arena.job_spec import ArenaJob, ArenaRole
from launcher.converters.arena.tensorboard import logs_mount
from launcher.converters.kubeflow.tfjob import CONTAINER, PORT_NAME

Json = dict[str, Any]

#: For containers without GPUs: images of NVIDIA expose all GPUs by default.
_NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "void"}
_PULLS = ("Always", "IfNotPresent", "Never")


def template(job: ArenaJob, role: ArenaRole) -> Json:
    """The PodTemplateSpec of the role, without the variables for its peers."""
    return {
        "metadata": {
            "labels": labels.pod_labels(job, role.type),
            "annotations": labels.pod_annotations(job, role.type),
        },
        "spec": _non_empty({**_pod(job, role), "affinity": affinity_of(job, role.type)}),
    }


def common_spec(job: ArenaJob) -> Json:
    """The pod fields of all roles, including TensorBoard."""
    return _non_empty(
        {
            "tolerations": job.tolerations,
            "imagePullSecrets": [{"name": name} for name in job.pull_secrets],
            "schedulerName": job.flags.text("scheduler"),
        }
    )


def selectors(job: ArenaJob, type_: str) -> dict[str, str]:
    """The node selector of the role, or else of all roles."""
    return pairs(job.flags, f"{type_}-selector") or pairs(job.flags, "selector")


def _pod(job: ArenaJob, role: ArenaRole) -> Json:
    flags, network = job.flags, job.flags.is_on("hostNetwork")
    init = init_container(job, env_of(job.env))
    log = logs_mount(job, role.type)
    return {
        "initContainers": [] if init is None else [init],
        "containers": [_container(job, role, [*volumes.mounts(job), *log])],
        "volumes": [*volumes.volumes(job), *([volumes.logs_volume(job)] if log else [])],
        "nodeSelector": selectors(job, role.type),
        **common_spec(job),
        "priorityClassName": flags.text("priority"),
        "hostNetwork": network,
        "dnsPolicy": "ClusterFirstWithHostNet" if network else "",
        "hostIPC": flags.is_on("hostIPC"),
        "hostPID": flags.is_on("hostPID"),
    }


def _container(job: ArenaJob, role: ArenaRole, mounted: list[Json]) -> Json:
    flags = job.flags
    rdma = flags.is_on("rdma") and role.type != "evaluator"
    return _non_empty(
        {
            "name": CONTAINER,
            "image": role.image,
            "imagePullPolicy": flags.choice("image-pull-policy", _PULLS),
            "command": [flags.text("shell"), "-c", job.command],
            "workingDir": flags.text("working-dir"),
            "env": env_of(_variables(job, role)),
            "ports": [{"name": PORT_NAME, "containerPort": role.port}] if role.port else [],
            "resources": _resources(job, role, rdma),
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}} if rdma else {},
            "volumeMounts": mounted,
        }
    )


def env_of(variables: Mapping[str, str]) -> list[Json]:
    """The variables in the format of a container."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def _variables(job: ArenaJob, role: ArenaRole) -> Mapping[str, str]:
    counts = {"workers": str(job.flags.number("workers")), "gpus": str(job.flags.number("gpus"))}
    return {**job.env, **counts, **({} if role.gpus or job.devices else _NO_GPUS)}


def _resources(job: ArenaJob, role: ArenaRole, rdma: bool) -> Json:
    requests = dict(_amounts(job, role, ""))
    limits = {**requests, **dict(_amounts(job, role, "-limit")), **job.devices}
    if role.gpus:
        limits[GPU] = str(role.gpus)
    if rdma:
        limits["rdma/hca"] = "1"
    return _non_empty({"requests": requests, "limits": limits})


def _amounts(job: ArenaJob, role: ArenaRole, suffix: str) -> Iterator[tuple[str, str]]:
    for resource in ("cpu", "memory"):
        if amount := job.flags.amount(f"{role.type}-{resource}{suffix}"):
            yield resource, amount


def _non_empty(values: Json) -> Json:
    """The values that are not empty."""
    return {name: value for name, value in values.items() if value}
