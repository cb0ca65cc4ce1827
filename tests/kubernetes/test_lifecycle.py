"""Frameworks on a real control plane: their pods, their completion, and the launcher's requests to kube-apiserver."""

from typing import Any

import pytest

from tests.builders import a_framework, a_role
from tests.kubernetes.namespace_client import SLOW_CONTROLLER_SECONDS, NamespaceClient, a_task_pod
from tests.local.server import ended

pytestmark = pytest.mark.usefixtures("shared_launcher")


def completion(framework: Any) -> Any:
    return framework["status"]["attemptStatus"]["completionStatus"]


def test_a_framework_completes_and_kubectl_shows_its_status_and_events(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod("succeeded"))))

    ns.kubectl("wait", "--for=condition=Succeeded", "framework/mnist", "--timeout=60s")
    framework = ns.wait_completed()
    pods = ns.pods()

    assert ended(framework) == "Succeeded"
    assert sorted(pods) == ["mnist-worker-0", "mnist-worker-1"]
    assert ns.kubectl("get", "fw").split()[:9] == [
        *("NAME", "STATE", "RESULT", "RUNNING", "DONE", "AGE"),
        *("mnist", "Completed", "Succeeded"),
    ]
    ns.until(lambda: ns.events("FrameworkSucceeded") or None, "its completion is recorded")
    assert "FrameworkSucceeded" in ns.kubectl("describe", "fw", "mnist")


def test_pods_have_an_owner_reference_that_blocks_the_deletion_of_the_framework(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0")

    (owner,) = ns.pods()["mnist-worker-0"]["metadata"]["ownerReferences"]

    assert owner == {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "name": "mnist",
        "uid": ns.framework()["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_pod_needs_one_request(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=20, pod=a_task_pod("succeeded"))))

    ns.wait_completed()

    assert len(ns.launcher_requests("create", "pods")) == 20
    assert ns.launcher_requests("delete", "pods") == []
    assert ns.launcher_requests("get", "pods") == []
    assert len(ns.launcher_requests("update", "frameworks", "status")) < 20


def test_a_failed_task_is_retried_within_its_budget(ns: NamespaceClient) -> None:
    role = a_role(tasks=2, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")
    first = ns.pods()["mnist-worker-0"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-0", "failed", "7")
    ns.wait_replaced("mnist-worker-0", first)
    retries = ns.task()["retryPolicyStatus"]["totalRetriedCount"]
    ns.end_pod("mnist-worker-0", "succeeded")
    ns.end_pod("mnist-worker-1", "succeeded")

    assert retries == 1
    assert ended(ns.wait_completed()) == "Succeeded"
    assert len(ns.launcher_requests("create", "pods")) == 3
    assert len(ns.launcher_requests("delete", "pods")) == 1
    (message,) = ns.until(lambda: ns.events("ContainerUnrecognizedFailed") or None, "the failure is recorded")
    assert message == "Task worker-0: Container main exited with code 7. Retrying: attempt 2 of 2."


def test_a_failed_attempt_is_retried_with_all_tasks(ns: NamespaceClient) -> None:
    roles = [a_role("ps", 1, pod=a_task_pod()), a_role("worker", 1, pod=a_task_pod())]
    ns.submit(a_framework(*roles, retryPolicy={"maxRetryCount": 1}))
    ns.wait_running("mnist-ps-0", "mnist-worker-0")
    first = ns.pods()["mnist-ps-0"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-0", "failed")
    ns.wait_replaced("mnist-ps-0", first)
    ns.wait_running("mnist-ps-0", "mnist-worker-0")
    attempt = ns.framework()["status"]["attemptStatus"]["id"]
    ns.end_pod("mnist-ps-0", "succeeded")
    ns.end_pod("mnist-worker-0", "succeeded")

    assert attempt == 1
    assert ended(ns.wait_completed()) == "Succeeded"
    assert len(ns.launcher_requests("create", "pods")) == 4
    assert len(ns.launcher_requests("delete", "pods")) == 2


def test_a_permanent_failure_has_a_reason(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("failed", exit_code="7"))))

    framework = ns.wait_completed()

    assert ended(framework) == "Failed"
    assert completion(framework)["code"] == 7
    assert completion(framework)["trigger"]["taskRoleName"] == "worker"
    ns.until(lambda: ns.events("FrameworkFailed") or None, "its completion is recorded")


@pytest.mark.parametrize(
    ("policy", "ends", "result"),
    [
        pytest.param({"minSucceededTaskCount": 1}, "succeeded", "Succeeded", id="one success is enough"),
        pytest.param({"minFailedTaskCount": 1}, "failed", "Failed", id="one failure is too many"),
    ],
)
def test_one_task_can_complete_the_framework(
    ns: NamespaceClient, policy: dict[str, int], ends: str, result: str
) -> None:
    role = a_role(tasks=3, pod=a_task_pod(), frameworkAttemptCompletionPolicy=policy)
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    ns.end_pod("mnist-worker-1", ends)

    assert ended(ns.wait_completed()) == result
    assert list(ns.pods()) == ["mnist-worker-1"]
    assert len(ns.launcher_requests("delete", "pods")) == 2


def test_failures_below_the_threshold_are_tolerated(ns: NamespaceClient) -> None:
    role = a_role(tasks=2, pod=a_task_pod(), frameworkAttemptCompletionPolicy={"minFailedTaskCount": 2})
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")

    ns.end_pod("mnist-worker-0", "failed")
    ns.end_pod("mnist-worker-1", "succeeded")

    assert ended(ns.wait_completed()) == "Succeeded"


def test_a_stopped_framework_deletes_its_pods(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")

    ns.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Stop"}}')

    assert completion(ns.wait_completed())["code"] == -210
    assert ns.pods() == {}
    assert len(ns.launcher_requests("delete", "pods")) == 2


@pytest.mark.timeout(2 * SLOW_CONTROLLER_SECONDS)
@pytest.mark.parametrize("propagation", ["background", "foreground"])
def test_a_deleted_framework_deletes_its_pods(ns: NamespaceClient, propagation: str) -> None:
    ns.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    ns.kubectl("delete", "fw", "mnist", f"--cascade={propagation}", f"--timeout={SLOW_CONTROLLER_SECONDS:g}s")
    ns.until(lambda: (not ns.pods()) or None, "no pod is left", SLOW_CONTROLLER_SECONDS)

    assert ns.framework() == {}
    assert len(ns.launcher_requests("create", "pods")) == 3, "no pod is recreated during the deletion"
    assert len(ns.launcher_requests("delete", "pods")) <= 3


def test_a_deleted_pod_is_recreated_if_its_task_may_be_retried(ns: NamespaceClient) -> None:
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0")
    first = ns.pods()["mnist-worker-0"]["metadata"]["uid"]

    ns.delete_without_waiting("pod", "mnist-worker-0")
    ns.wait_replaced("mnist-worker-0", first)
    ns.delete_without_waiting("pod", "mnist-worker-0")

    framework = ns.wait_completed()
    assert completion(framework)["code"] == -101
    assert len(ns.launcher_requests("create", "pods")) == 2
    assert ns.launcher_requests("delete", "pods") == []


@pytest.mark.timeout(2 * SLOW_CONTROLLER_SECONDS)
def test_tasks_of_a_deleted_node_run_on_another(ns: NamespaceClient) -> None:
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(a_framework(role))
    ns.wait_running("mnist-worker-0")
    pod = ns.pods()["mnist-worker-0"]
    path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
    node = ns.cluster.admin.get(path)

    ns.cluster.admin.delete(path)
    try:
        ns.wait_replaced("mnist-worker-0", pod["metadata"]["uid"], SLOW_CONTROLLER_SECONDS)
        new_node = ns.pods()["mnist-worker-0"]["spec"]["nodeName"]
    finally:
        del node["metadata"]["resourceVersion"], node["metadata"]["uid"]
        ns.cluster.admin.post("/api/v1/nodes", node)

    assert new_node != pod["spec"]["nodeName"]
    assert len(ns.launcher_requests("create", "pods")) == 2


def test_a_running_framework_can_be_rescaled(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")
    patch = '[{"op":"replace","path":"/spec/taskRoles/0/taskNumber","value":%d}]'

    ns.kubectl("patch", "fw", "mnist", "--type=json", "-p", patch % 4)
    ns.wait_running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2", "mnist-worker-3")
    ns.kubectl("patch", "fw", "mnist", "--type=json", "-p", patch % 1)
    ns.wait_running("mnist-worker-0")

    assert len(ns.launcher_requests("create", "pods")) == 4
    assert len(ns.launcher_requests("delete", "pods")) == 3


@pytest.mark.timeout(2 * SLOW_CONTROLLER_SECONDS)
def test_a_completed_framework_is_deleted_after_its_ttl(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), ttlSecondsAfterFinished=2))

    ns.until(lambda: (not ns.framework()) or None, "the Framework is deleted", SLOW_CONTROLLER_SECONDS)
    ns.until(lambda: (not ns.pods()) or None, "its pod is deleted", SLOW_CONTROLLER_SECONDS)

    assert len(ns.launcher_requests("delete", "frameworks")) == 1


def test_a_framework_with_execution_type_create_starts_on_request(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), executionType="Create"))
    ns.until(lambda: ns.framework().get("status"), "it has a status")

    ns.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Start"}}')

    assert ended(ns.wait_completed()) == "Succeeded"
