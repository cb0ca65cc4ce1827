"""Rows of what Frameworks and tasks use."""

from typing import Any

from launcher.cli.output.usage_table import framework_use_rows, task_use_rows, task_uses

MIB = 2**20


def a_pod(framework: str, index: int, *, gpus: int = 0, phase: str = "Running", node: str = "n1") -> Any:
    labels = {
        "FC_FRAMEWORK_NAME": framework,
        "FC_TASKROLE_NAME": "worker",
        "FC_TASK_INDEX": str(index),
    }
    limits = {"nvidia.com/gpu": gpus, "memory": "1Gi"} if gpus else {}
    return {
        "metadata": {"namespace": "default", "name": f"{framework}-worker-{index}", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def metrics_of(pod: Any, *usages: tuple[str, str]) -> Any:
    containers = [{"name": "main", "usage": {"cpu": cpu, "memory": memory}} for cpu, memory in usages]
    return {"metadata": pod["metadata"], "containers": containers}


ONE, TWO, OTHER = a_pod("mnist", 0, gpus=2), a_pod("mnist", 1, gpus=1), a_pod("other", 0)
METRICS = [
    metrics_of(ONE, ("250000000n", "10240Ki"), ("1m", "1Mi")),
    metrics_of(TWO, ("1", "5Mi")),
    metrics_of(OTHER, ("700m", "1Gi")),
]


def test_frameworks_have_the_sum_of_their_tasks_the_largest_first() -> None:
    uses = task_uses([ONE, TWO, OTHER], METRICS)

    assert framework_use_rows(uses, "cpu", namespaces=False) == [
        ("mnist", "2", "1251m", "16Mi", "3"),
        ("other", "1", "700m", "1024Mi", "0"),
    ]
    assert [row[:2] for row in framework_use_rows(uses, "memory", namespaces=True)] == [
        ("default", "other"),
        ("default", "mnist"),
    ]


def test_tasks_are_sorted_by_any_column() -> None:
    uses = task_uses([ONE, TWO], METRICS)

    assert task_use_rows(uses, "cpu") == [
        ("worker-1", "n1", "1000m", "5Mi", "1"),
        ("worker-0", "n1", "251m", "11Mi", "2"),
    ]
    for column in ("memory", "gpus"):
        assert [row[0] for row in task_use_rows(uses, column)] == ["worker-0", "worker-1"]


def test_pods_that_have_completed_or_have_no_node_use_nothing() -> None:
    ended, pending = a_pod("mnist", 0, gpus=1, phase="Failed"), a_pod("mnist", 1, gpus=1, node="")

    assert task_uses([ended, pending], METRICS) == []


def test_gpus_are_shown_without_metrics() -> None:
    uses = task_uses([ONE, TWO], [])

    assert framework_use_rows(uses, "gpus", namespaces=False) == [("mnist", "2", "-", "-", "3")]
