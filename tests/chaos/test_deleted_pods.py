"""Pods and nodes deleted by other clients: tasks are retried, and the retries do not count."""

from collections import Counter
from typing import Any

import pytest

from tests.chaos.harness import ChaosHarness
from tests.chaos.workloads import random_workload
from tests.cluster.nodes import is_ready, node
from tests.eventually import until
from tests.kubernetes.launcher import KubeLauncher

#: The cluster deletes pods of a deleted node after about a minute.
POD_GC_SECONDS = 150.0


@pytest.mark.timeout(240)
def test_deleted_pods_are_recreated(harness: ChaosHarness, launcher: KubeLauncher) -> None:
    for number in range(2):
        harness.submit(random_workload(harness.random, f"p{number}"))
        for _ in range(12):
            harness.pause(0.4)
            delete_random_pod(harness)
    harness.wait_for_completion(timeout_seconds=120)

    assert uncounted_retries(harness)
    harness.check(launcher)


@pytest.mark.timeout(300)
def test_pods_of_deleted_nodes_are_retried(harness: ChaosHarness, launcher: KubeLauncher) -> None:
    harness.submit(random_workload(harness.random, "n", rounds=2))
    nodes = until(lambda: busiest_nodes(harness, 5), "some nodes have pods")
    try:
        for name in nodes:
            harness.cluster.admin.delete(f"/api/v1/nodes/{name}")
        harness.wait_for_completion(timeout_seconds=POD_GC_SECONDS)
    finally:
        for name in nodes:
            harness.cluster.admin.post("/api/v1/nodes", node(int(name.removeprefix("node-"))))
        until(
            lambda: all(map(is_ready, harness.cluster.admin.get("/api/v1/nodes")["items"])) or None,
            "the nodes are ready",
        )
    harness.record_pods_lost_with(nodes)

    assert uncounted_retries(harness)
    harness.check(launcher)


def delete_random_pod(harness: ChaosHarness) -> None:
    """Deletes a random pod that has not terminated, if any."""
    pods = [pod for pod in harness.client.pods().values() if is_active(pod)]
    if pods:
        pod = harness.random.choice(pods)
        meta = pod["metadata"]
        options = {"preconditions": {"uid": meta["uid"]}, "gracePeriodSeconds": 0}
        harness.cluster.admin.request("DELETE", harness.client.path("pods", meta["name"]), options)
        harness.deleted.add(meta["uid"])


def uncounted_retries(harness: ChaosHarness) -> list[Any]:
    """Returns the retry statuses with retries that do not count."""
    attempts = [framework["status"]["attemptStatus"] for framework in harness.frameworks().values()]
    tasks = [
        task for attempt in attempts for role in attempt["taskRoleStatuses"] for task in role["taskStatuses"]
    ]
    retries = [task["retryPolicyStatus"] for task in tasks]
    return [retry for retry in retries if retry["totalRetriedCount"] > retry["accountableRetriedCount"]]


def busiest_nodes(harness: ChaosHarness, number: int) -> set[str] | None:
    """Returns the nodes with most pods, once more than five run."""
    pods = [pod for pod in harness.client.pods().values() if is_active(pod) and "nodeName" in pod["spec"]]
    counts = Counter(pod["spec"]["nodeName"] for pod in pods).most_common(number)
    return {name for name, _ in counts} if sum(count for _, count in counts) > 5 else None


def is_active(pod: Any) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]
