"""The cost of building a pod from its template: independent of the number of tasks."""

import copy
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from launcher.core.pods.pod_template import PodTemplate
from launcher.core.spec import FrameworkName, RoleName, TaskRole
from tests.bench import Row, row

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 7
#: Pods per round for each size, so that small sizes are measured as precisely as large ones.
PODS = 10_000

WORKER, PS = RoleName("worker"), RoleName("ps")

#: A typical training pod: an init container for the rendezvous, volumes, host network.
POD: dict[str, Any] = {
    "spec": {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "initContainers": [
            {
                "name": "peers",
                "image": "registry.example.com/peers:1",
                "command": ["/bin/sh", "-c", "find-peers --roles worker,ps --out /configdir/configfile"],
                "volumeMounts": [{"name": "config", "mountPath": "/configdir"}],
            }
        ],
        "containers": [
            {
                "name": "train",
                "image": "registry.example.com/train:1",
                "ports": [{"containerPort": 46866}],
                "workingDir": "/work",
                "command": [
                    "/bin/sh",
                    "-c",
                    "train --workers $(head -n 1 /configdir/configfile) --ps $(tail -n 1 /configdir/configfile)"
                    " --job worker --task $taskindex --out /mnt/{{FC_FRAMEWORK_NAME}}/{{FC_TASK_INDEX}}",
                ],
                "env": [{"name": "LOG_LEVEL", "value": "info"}],
                "resources": {"limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}},
                "volumeMounts": [
                    {"name": "config", "mountPath": "/configdir"},
                    {"name": "data", "mountPath": "/mnt"},
                ],
            }
        ],
        "volumes": [
            {"name": "config", "emptyDir": {}},
            {"name": "data", "nfs": {"server": "10.0.0.12", "path": "/export/data"}},
        ],
    }
}
UID = "0b8e7a6a-5e2e-4b6e-9a53-3a1f3c0f7d11"
ROLE = TaskRole(WORKER, 10_000, POD)
COUNTS = {WORKER: 10_000, PS: 1}


def rows() -> list[Row]:
    """Measures in turns and returns medians, so that other load on the machine affects all alike."""
    work: dict[str, Callable[[], None]] = {str(size): partial(_attempts, size) for size in SIZES}
    work["copy"] = _copies
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, run in work.items():
            seconds[name].append(_seconds(run) / PODS)
    base = median(seconds["100"])
    figures = [
        row(
            f"materialize: cost per task at {size:,} tasks, compared with 100",
            median(
                round_ / hundred for round_, hundred in zip(seconds[str(size)], seconds["100"], strict=True)
            ),
            "ratio",
            # With ten tasks the cost of the template itself counts more; only growth is a failure.
            at_most=1.2 if size > 100 else None,
        )
        for size in SIZES
    ]
    return [
        *figures,
        row(
            "materialize: a pod, compared with copy.deepcopy of its template",
            base / median(seconds["copy"]),
            "ratio",
            at_most=1.0,
        ),
        row("materialize: a pod", base * 1e6, "µs"),
    ]


def _seconds(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _template() -> PodTemplate:
    return PodTemplate.compile(FrameworkName("mnist"), "default", UID, 0, ROLE, COUNTS)


def _attempts(size: int) -> None:
    """Builds PODS pods, in attempts of *size* tasks with a compiled template each."""
    for _ in range(PODS // size):
        template = _template()
        for index in range(size):
            template.pod(index, 0, 0)


def _copies() -> None:
    """Copies the template PODS times, as a lower bound."""
    for _ in range(PODS):
        copy.deepcopy(POD)
