"""Pods and nodes may go without a word to the launcher: their tasks run again, and no retry of theirs counts."""

from collections import Counter
from typing import Any

import pytest

from tests.chaos.load import load
from tests.chaos.scene import Scene
from tests.cluster.nodes import is_ready, node
from tests.kubernetes.launcher import KubeLauncher
from tests.local.server import until

#: Seconds: the cluster takes away the pods of a node that is gone after a minute or so.
ORPHANED = 150.0


@pytest.mark.timeout(240)
def test_pods_that_are_deleted_are_made_again(scene: Scene, launcher: KubeLauncher) -> None:
    for number in range(2):
        scene.submit(load(scene.chance, f"p{number}"))
        for _ in range(12):
            scene.moment(0.4)
            delete_one(scene)
    scene.settled(within=120)

    assert retried_for_nothing(scene)
    scene.check(launcher)


@pytest.mark.timeout(300)
def test_nodes_that_are_deleted_take_their_pods_with_them(scene: Scene, launcher: KubeLauncher) -> None:
    scene.submit(load(scene.chance, "n", rounds=2))
    nodes = until(lambda: busiest(scene, 5), "there are pods on them")
    try:
        for name in nodes:
            scene.cluster.admin.delete(f"/api/v1/nodes/{name}")
        scene.settled(within=ORPHANED)
    finally:
        for name in nodes:
            scene.cluster.admin.post("/api/v1/nodes", node(int(name.removeprefix("node-"))))
        until(
            lambda: all(map(is_ready, scene.cluster.admin.get("/api/v1/nodes")["items"])) or None,
            "they are back",
        )
    scene.lost_with(nodes)

    assert retried_for_nothing(scene)
    scene.check(launcher)


def delete_one(scene: Scene) -> None:
    """Any pod that has not ended, if there is one just now."""
    pods = [pod for pod in scene.world.pods().values() if runs(pod)]
    if pods:
        pod = scene.chance.choice(pods)
        meta = pod["metadata"]
        options = {"preconditions": {"uid": meta["uid"]}, "gracePeriodSeconds": 0}
        scene.cluster.admin.ask("DELETE", scene.world.path("pods", meta["name"]), options)
        scene.deleted.add(meta["uid"])


def retried_for_nothing(scene: Scene) -> list[Any]:
    """The tasks that ran again without having failed: their retries do not count."""
    attempts = [framework["status"]["attemptStatus"] for framework in scene.frameworks().values()]
    tasks = [
        task for attempt in attempts for role in attempt["taskRoleStatuses"] for task in role["taskStatuses"]
    ]
    retries = [task["retryPolicyStatus"] for task in tasks]
    return [each for each in retries if each["totalRetriedCount"] > each["accountableRetriedCount"]]


def busiest(scene: Scene, number: int) -> set[str] | None:
    """The nodes with most pods, once more than five run on them."""
    pods = [pod for pod in scene.world.pods().values() if runs(pod) and "nodeName" in pod["spec"]]
    found = Counter(pod["spec"]["nodeName"] for pod in pods).most_common(number)
    return {name for name, _ in found} if sum(count for _, count in found) > 5 else None


def runs(pod: Any) -> bool:
    return pod["status"]["phase"] in {"Pending", "Running"} and "deletionTimestamp" not in pod["metadata"]
