"""What Frameworks and their tasks use: CPU, memory and GPUs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.names import PodIdentityKey
from launcher.core.pods.resource_requests import pod_requests
from launcher.core.quantity import quantity

Json = Mapping[str, Any]

FRAMEWORK_USE_HEADER = ("NAME", "TASKS", "CPU", "MEMORY", "GPUS")
TASK_USE_HEADER = ("TASK", "NODE", "CPU", "MEMORY", "GPUS")
_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class TaskUse:
    """What the running pod of a task uses. CPU and memory are None if they are not known."""

    namespace: str
    framework: str
    task: str
    node: str
    #: Cores.
    cpu: float | None
    #: Bytes.
    memory: int | None
    gpus: int


def task_uses(pods: Iterable[Json], metrics: Iterable[Json]) -> list[TaskUse]:
    """What the pods on nodes use that have not completed; *metrics* are their PodMetrics."""
    measured = {_key(each): each["containers"] for each in metrics}
    return [
        _task_use(pod, measured.get(_key(pod)))
        for pod in pods
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def _key(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _task_use(pod: Json, containers: Sequence[Json] | None) -> TaskUse:
    labels = pod["metadata"]["labels"]
    role, index = labels[PodIdentityKey.TASKROLE_NAME], labels[PodIdentityKey.TASK_INDEX]
    usages = None if containers is None else [each["usage"] for each in containers]
    return TaskUse(
        pod["metadata"]["namespace"],
        labels[PodIdentityKey.FRAMEWORK_NAME],
        f"{role}-{index}",
        pod["spec"]["nodeName"],
        None if usages is None else float(sum(quantity(each["cpu"]) for each in usages)),
        None if usages is None else int(sum(quantity(each["memory"]) for each in usages)),
        _gpus(pod["spec"]),
    )


def _gpus(spec: Json) -> int:
    """The GPUs that are allocated to a pod, of any vendor."""
    return sum(amount // 1000 for name, amount in pod_requests(spec).items() if name.endswith("/gpu"))


def framework_use_rows(uses: Iterable[TaskUse], sort_by: str, *, namespaces: bool) -> list[tuple[str, ...]]:
    """A row for each Framework with the sum of its tasks, the largest use first."""
    tasks: dict[tuple[str, str], list[TaskUse]] = {}
    for use in uses:
        tasks.setdefault((use.namespace, use.framework), []).append(use)
    sums = {key: _sum(each) for key, each in tasks.items()}
    return [
        (*((key[0],) if namespaces else ()), key[1], str(len(tasks[key])), *_cells(sums[key]))
        for key in sorted(sums, key=lambda key: (*_order(sums[key], sort_by), key))
    ]


def task_use_rows(uses: Iterable[TaskUse], sort_by: str) -> list[tuple[str, ...]]:
    """A row for each task, the largest use first."""
    ordered = sorted(uses, key=lambda use: (*_order(use, sort_by), use.task))
    return [(use.task, use.node, *_cells(use)) for use in ordered]


def _sum(uses: Sequence[TaskUse]) -> TaskUse:
    first = uses[0]
    cpus = [use.cpu for use in uses if use.cpu is not None]
    memories = [use.memory for use in uses if use.memory is not None]
    return TaskUse(
        first.namespace,
        first.framework,
        "",
        "",
        sum(cpus) if cpus else None,
        sum(memories) if memories else None,
        sum(use.gpus for use in uses),
    )


def _order(use: TaskUse, sort_by: str) -> tuple[float, ...]:
    values = {"cpu": use.cpu or 0, "memory": use.memory or 0, "gpus": use.gpus}
    return -values[sort_by], -values["cpu"]


def _cells(use: TaskUse) -> tuple[str, str, str]:
    """CPU and memory in the units of kubectl top."""
    cpu = "-" if use.cpu is None else f"{round(use.cpu * 1000)}m"
    memory = "-" if use.memory is None else f"{use.memory // _MEBIBYTE}Mi"
    return cpu, memory, str(use.gpus)
