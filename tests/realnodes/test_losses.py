"""Nodes that fall silent, are removed, or are emptied while tasks run on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.world import World
from tests.local.server import ended
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import FOREVER, a_real_pod, has_host_data, on, sees_host_data

pytestmark = pytest.mark.usefixtures("shared_launcher")

POD = "mnist-worker-0"
#: From the moment on when its node is known to be unreachable, the pod is to be deleted.
IMPATIENT = [
    {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0,
    }
]
#: Kubernetes waits a minute and more before it takes the pods of a removed node for gone.
SURE = 150.0


def a_retried_framework(**spec: Any) -> Json:
    """One task that starts on node-1 if that is there, runs on, and is retried whenever that is worth it."""
    first = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    preferred = [{"weight": 100, "preference": first}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    role = a_role(tasks=1, pod=a_real_pod(FOREVER, affinity=affinity, **spec))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 0}
    return a_framework(role)


def uid(world: World) -> str:
    return str(world.pods().get(POD, {}).get("metadata", {}).get("uid"))


def retried(world: World) -> Any:
    return world.task()["retryPolicyStatus"]["totalRetriedCount"]


@contextmanager
def silent(bed: RealNodes, name: str) -> Iterator[None]:
    """Inside, kubelet of that node is dead, and the control plane has noticed it."""
    node = bed.nodes[name]
    node.lose_kubelet()
    try:
        bed.unreachable(name)
        yield
    finally:
        node.resume()
        bed.ready(name)


def has_seen_all_so_far(world: World) -> None:
    """Return when the launcher has done later work: a Framework on the other node has come and gone."""
    world.submit(
        a_framework(a_role(tasks=1, pod=a_real_pod("true", nodeSelector=on("node-2"))), name="later")
    )
    world.completed("later")
    world.kubectl("delete", "fw", "later", "--cascade=foreground", "--timeout=60s")


def test_a_task_on_a_node_that_cannot_be_reached_has_not_failed(bed: RealNodes, world: World) -> None:
    world.submit(a_retried_framework())
    world.running(POD)
    before = uid(world)

    with silent(bed, "node-1"):
        has_seen_all_so_far(world)

        assert uid(world) == before
        assert (retried(world), world.task()["state"]) == (0, "AttemptRunning")
    world.running(POD)

    assert uid(world) == before
    assert retried(world) == 0


def test_a_pod_to_be_deleted_from_a_silent_node_is_replaced_only_when_it_is_known_to_be_gone(
    bed: RealNodes, world: World
) -> None:
    world.submit(a_retried_framework(tolerations=IMPATIENT))
    world.running(POD)
    before = uid(world)

    with silent(bed, "node-1"):
        world.until(
            lambda: world.pods()[POD]["metadata"].get("deletionTimestamp"), "the pod is to be deleted"
        )
        has_seen_all_so_far(world)

        # It may well still run over there: a second one would be one too many.
        assert uid(world) == before
        assert retried(world) == 0
    world.replaced(POD, before)

    assert retried(world) == 1
    assert len(world.asked("create", "pods")) == 3, "the two of this task, and the later one"


@pytest.mark.timeout(300)
def test_tasks_of_a_node_that_is_removed_for_good_run_again_elsewhere(bed: RealNodes, world: World) -> None:
    world.submit(a_retried_framework())
    world.running(POD)
    before = uid(world)

    with silent(bed, "node-1"):
        bed.plane.admin.delete("/api/v1/nodes/node-1")
        world.until(
            lambda: uid(world) != before or None, "the pod of the node that is gone is replaced", SURE
        )
        world.running(POD)

        assert world.pods()[POD]["spec"]["nodeName"] == "node-2"
        assert retried(world) == 1


def test_a_drained_nodes_tasks_run_again_elsewhere_and_it_costs_them_no_retry_of_their_own(
    bed: RealNodes, world: World
) -> None:
    world.submit(a_retried_framework())
    world.running(POD)
    before = uid(world)

    try:
        world.kubectl("drain", "node-1", "--timeout=60s")
        world.replaced(POD, before)
    finally:
        world.kubectl("uncordon", "node-1")

    assert world.pods()[POD]["spec"]["nodeName"] == "node-2"
    retries = world.task()["retryPolicyStatus"]
    assert (retries["totalRetriedCount"], retries.get("accountableRetriedCount", 0)) == (1, 0)


def test_a_task_without_retries_is_lost_with_the_pod_that_a_drain_takes(bed: RealNodes, world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod(FOREVER, nodeSelector=on("node-1")))))
    world.running(POD)

    try:
        world.kubectl("drain", "node-1", "--timeout=60s")
        framework = world.completed()
    finally:
        world.kubectl("uncordon", "node-1")

    status = world.task()["attemptStatus"]["completionStatus"]
    assert ended(framework) == "Failed"
    assert (status["code"], status["phrase"]) == (-101, "PodExternalDeleted")
    assert status["type"]["attributes"] == ["Transient"]


def test_containers_go_on_while_kubelet_is_away_and_their_end_is_heard_of_when_it_is_back(
    bed: RealNodes, world: World
) -> None:
    gate = bed.nodes["node-1"].data / world.namespace
    script = f"until [ -e /host/{world.namespace} ]; do sleep 0.1; done; exit 5"
    pod = a_real_pod(script, container=sees_host_data(), **has_host_data("node-1"))
    world.submit(a_framework(a_role(tasks=1, pod=pod)))
    world.running(POD)
    world.until(lambda: world.task()["state"] == "AttemptRunning" or None, "that is stored")

    with silent(bed, "node-1"):
        gate.touch()
        assert world.task()["state"] == "AttemptRunning"

    assert ended(world.completed()) == "Failed"
    assert world.task()["attemptStatus"]["completionStatus"]["code"] == 5
