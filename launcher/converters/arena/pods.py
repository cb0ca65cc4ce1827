"""The pod of each role."""

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

#: Who may see no GPU is told so: the image may be one that shows them all.
_NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "void"}
_PULLS = ("Always", "IfNotPresent", "Never")


def template(job: ArenaJob, role: ArenaRole) -> Json:
    """The PodTemplateSpec of the role, without what makes its instances know each other."""
    return {
        "metadata": {
            "labels": labels.pod_labels(job, role.type),
            "annotations": labels.pod_annotations(job, role.type),
        },
        "spec": _given({**_pod(job, role), "affinity": affinity_of(job, role.type)}),
    }


def common_spec(job: ArenaJob) -> Json:
    """What the pods of all roles share, TensorBoard's too."""
    return _given(
        {
            "tolerations": job.tolerations,
            "imagePullSecrets": [{"name": name} for name in job.pull_secrets],
            "schedulerName": job.given.text("scheduler"),
        }
    )


def selectors(job: ArenaJob, type_: str) -> dict[str, str]:
    """The labels of the nodes that the role may run on: its own instead of everybody's."""
    return pairs(job.given, f"{type_}-selector") or pairs(job.given, "selector")


def _pod(job: ArenaJob, role: ArenaRole) -> Json:
    given, network = job.given, job.given.is_on("hostNetwork")
    init = init_container(job, env_of(job.env))
    log = logs_mount(job, role.type)
    return {
        "initContainers": [] if init is None else [init],
        "containers": [_container(job, role, [*volumes.mounts(job), *log])],
        "volumes": [*volumes.volumes(job), *([volumes.logs_volume(job)] if log else [])],
        "nodeSelector": selectors(job, role.type),
        **common_spec(job),
        "priorityClassName": given.text("priority"),
        "hostNetwork": network,
        "dnsPolicy": "ClusterFirstWithHostNet" if network else "",
        "hostIPC": given.is_on("hostIPC"),
        "hostPID": given.is_on("hostPID"),
    }


def _container(job: ArenaJob, role: ArenaRole, mounted: list[Json]) -> Json:
    given = job.given
    rdma = given.is_on("rdma") and role.type != "evaluator"
    return _given(
        {
            "name": CONTAINER,
            "image": role.image,
            "imagePullPolicy": given.word("image-pull-policy", _PULLS),
            "command": [given.text("shell"), "-c", job.command],
            "workingDir": given.text("working-dir"),
            "env": env_of(_variables(job, role)),
            "ports": [{"name": PORT_NAME, "containerPort": role.port}] if role.port else [],
            "resources": _resources(job, role, rdma),
            "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}} if rdma else {},
            "volumeMounts": mounted,
        }
    )


def env_of(variables: Mapping[str, str]) -> list[Json]:
    """Variables as a container has them."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def _variables(job: ArenaJob, role: ArenaRole) -> Mapping[str, str]:
    told = {"workers": str(job.given.number("workers")), "gpus": str(job.given.number("gpus"))}
    return {**job.env, **told, **({} if role.gpus or job.devices else _NO_GPUS)}


def _resources(job: ArenaJob, role: ArenaRole, rdma: bool) -> Json:
    requests = dict(_amounts(job, role, ""))
    limits = {**requests, **dict(_amounts(job, role, "-limit")), **job.devices}
    if role.gpus:
        limits[GPU] = str(role.gpus)
    if rdma:
        limits["rdma/hca"] = "1"
    return _given({"requests": requests, "limits": limits})


def _amounts(job: ArenaJob, role: ArenaRole, suffix: str) -> Iterator[tuple[str, str]]:
    for resource in ("cpu", "memory"):
        if amount := job.given.amount(f"{role.type}-{resource}{suffix}"):
            yield resource, amount


def _given(values: Json) -> Json:
    """What says something."""
    return {name: value for name, value in values.items() if value}
