"""What it costs to make a pod: the same for every task, however many there are."""

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
#: Pods made per round for each size, so that small sizes are measured as surely as large ones.
PODS = 10_000

WORKER, PS = RoleName("worker"), RoleName("ps")

#: A training pod as people write it: an init container that finds its peers, volumes, host network.
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
    """The figures; medians of rounds that take turns, so that a busy moment touches all alike."""
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
            # What a template itself costs weighs more on ten tasks; only growth is a fault.
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
    begun = perf_counter()
    run()
    return perf_counter() - begun


def _template() -> PodTemplate:
    return PodTemplate.of(FrameworkName("mnist"), "default", UID, 0, ROLE, COUNTS)


def _attempts(size: int) -> None:
    """As many attempts of *size* tasks, each with its template compiled, as make up PODS pods."""
    for _ in range(PODS // size):
        template = _template()
        for index in range(size):
            template.pod(index, 0, 0)


def _copies() -> None:
    """The bare template copied PODS times: what it would cost before anything is filled in."""
    for _ in range(PODS):
        copy.deepcopy(POD)
