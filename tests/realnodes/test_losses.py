"""Nodes that become unreachable, are removed, or are drained while tasks run on them."""

from typing import Any

import pytest

from tests.builders import Json, a_framework, a_role
from tests.kubernetes.namespace_client import NamespaceClient
from tests.local.server import ended
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod, host_data_mount, host_data_volume, node_selector

pytestmark = pytest.mark.usefixtures("shared_launcher")

POD = "mnist-worker-0"
#: The pod is deleted as soon as its node is unreachable.
TOLERATE_UNREACHABLE_NO_TIME = [
    {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0,
    }
]
#: Kubernetes removes the pods of a removed node after more than a minute.
NODE_REMOVAL_SECONDS = 150.0


def a_retried_framework(**spec: Any) -> Json:
    """One task that prefers node-1, runs until it is stopped, and is retried after transient failures."""
    first = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    preferred = [{"weight": 100, "preference": first}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    role = a_role(tasks=1, pod=a_real_pod(SLEEP_COMMAND, affinity=affinity, **spec))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 0}
    return a_framework(role)


def uid(ns: NamespaceClient) -> str:
    return str(ns.pods().get(POD, {}).get("metadata", {}).get("uid"))


def retry_count(ns: NamespaceClient) -> Any:
    return ns.task()["retryPolicyStatus"]["totalRetriedCount"]


def wait_until_launcher_is_current(ns: NamespaceClient) -> None:
    """Waits until the launcher has run and deleted another Framework on the other node."""
    ns.submit(
        a_framework(
            a_role(tasks=1, pod=a_real_pod("true", nodeSelector=node_selector("node-2"))), name="later"
        )
    )
    ns.wait_completed("later")
    ns.kubectl("delete", "fw", "later", "--cascade=foreground", "--timeout=60s")


def test_a_task_on_a_node_that_cannot_be_reached_has_not_failed(bed: RealNodes, ns: NamespaceClient) -> None:
    ns.submit(a_retried_framework())
    ns.wait_running(POD)
    before = uid(ns)

    with bed.unreachable("node-1"):
        wait_until_launcher_is_current(ns)

        assert uid(ns) == before
        assert (retry_count(ns), ns.task()["state"]) == (0, "AttemptRunning")
    ns.wait_running(POD)

    assert uid(ns) == before
    assert retry_count(ns) == 0


def test_a_deleted_pod_of_an_unreachable_node_is_replaced_only_after_its_removal(
    bed: RealNodes, ns: NamespaceClient
) -> None:
    ns.submit(a_retried_framework(tolerations=TOLERATE_UNREACHABLE_NO_TIME))
    ns.wait_running(POD)
    before = uid(ns)

    with bed.unreachable("node-1"):
        ns.until(lambda: ns.pods()[POD]["metadata"].get("deletionTimestamp"), "the pod is to be deleted")
        wait_until_launcher_is_current(ns)

        # It may still run there: a replacement would be a duplicate.
        assert uid(ns) == before
        assert retry_count(ns) == 0
    ns.wait_replaced(POD, before)

    assert retry_count(ns) == 1
    assert len(ns.launcher_requests("create", "pods")) == 3, "the two of this task, and the later one"


@pytest.mark.timeout(300)
def test_tasks_of_a_removed_node_are_retried_on_another(bed: RealNodes, ns: NamespaceClient) -> None:
    ns.submit(a_retried_framework())
    ns.wait_running(POD)
    before = uid(ns)

    with bed.unreachable("node-1"):
        bed.plane.admin.delete("/api/v1/nodes/node-1")
        ns.until(
            lambda: uid(ns) != before or None,
            "the pod of the removed node is replaced",
            NODE_REMOVAL_SECONDS,
        )
        ns.wait_running(POD)

        assert ns.pods()[POD]["spec"]["nodeName"] == "node-2"
        assert retry_count(ns) == 1


def test_tasks_of_a_drained_node_are_retried_on_another_without_counting_the_retry(
    bed: RealNodes, ns: NamespaceClient
) -> None:
    ns.submit(a_retried_framework())
    ns.wait_running(POD)
    before = uid(ns)

    try:
        ns.kubectl("drain", "node-1", "--timeout=60s")
        ns.wait_replaced(POD, before)
    finally:
        ns.kubectl("uncordon", "node-1")

    assert ns.pods()[POD]["spec"]["nodeName"] == "node-2"
    retries = ns.task()["retryPolicyStatus"]
    assert (retries["totalRetriedCount"], retries.get("accountableRetriedCount", 0)) == (1, 0)


def test_a_task_without_retries_fails_when_its_node_is_drained(bed: RealNodes, ns: NamespaceClient) -> None:
    ns.submit(
        a_framework(a_role(tasks=1, pod=a_real_pod(SLEEP_COMMAND, nodeSelector=node_selector("node-1"))))
    )
    ns.wait_running(POD)

    try:
        ns.kubectl("drain", "node-1", "--timeout=60s")
        framework = ns.wait_completed()
    finally:
        ns.kubectl("uncordon", "node-1")

    status = ns.task()["attemptStatus"]["completionStatus"]
    assert ended(framework) == "Failed"
    assert (status["code"], status["phrase"]) == (-101, "PodExternalDeleted")
    assert status["type"]["attributes"] == ["Transient"]


def test_containers_continue_without_the_kubelet_and_their_exit_is_reported_after_its_restart(
    bed: RealNodes, ns: NamespaceClient
) -> None:
    gate = bed.nodes["node-1"].data / ns.namespace
    script = f"until [ -e /host/{ns.namespace} ]; do sleep 0.1; done; exit 5"
    pod = a_real_pod(script, container=host_data_mount(), **host_data_volume("node-1"))
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))
    ns.wait_running(POD)
    ns.until(lambda: ns.task()["state"] == "AttemptRunning" or None, "that is stored")

    with bed.unreachable("node-1"):
        gate.touch()
        assert ns.task()["state"] == "AttemptRunning"

    assert ended(ns.wait_completed()) == "Failed"
    assert ns.task()["attemptStatus"]["completionStatus"]["code"] == 5
