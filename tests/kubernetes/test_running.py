"""Frameworks on a real control plane: their pods, their ends, and what the API server was asked for on the way."""

from typing import Any

import pytest

from tests.core.manifests import a_framework, a_role
from tests.kubernetes.world import NOW_AND_THEN, World, a_task_pod
from tests.local.server import ended

pytestmark = pytest.mark.usefixtures("shared_launcher")


def completion(framework: Any) -> Any:
    return framework["status"]["attemptStatus"]["completionStatus"]


def test_a_framework_runs_to_its_end_and_every_client_of_kubernetes_can_see_it(world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod("succeeded"))))

    world.kubectl("wait", "--for=condition=Succeeded", "framework/mnist", "--timeout=60s")
    framework = world.completed()
    pods = world.pods()

    assert ended(framework) == "Succeeded"
    assert sorted(pods) == ["mnist-worker-0", "mnist-worker-1"]
    assert world.kubectl("get", "fw").split()[:9] == [
        *("NAME", "STATE", "RESULT", "RUNNING", "DONE", "AGE"),
        *("mnist", "Completed", "Succeeded"),
    ]
    world.until(lambda: world.events("FrameworkSucceeded") or None, "its end is told")
    assert "FrameworkSucceeded" in world.kubectl("describe", "fw", "mnist")


def test_pods_belong_to_their_framework_which_is_not_gone_before_them(world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod())))
    world.running("mnist-worker-0")

    (owner,) = world.pods()["mnist-worker-0"]["metadata"]["ownerReferences"]

    assert owner == {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "name": "mnist",
        "uid": world.framework()["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_pod_costs_one_request_and_its_kept_end_none(world: World) -> None:
    world.submit(a_framework(a_role(tasks=20, pod=a_task_pod("succeeded"))))

    world.completed()

    assert len(world.asked("create", "pods")) == 20
    assert world.asked("delete", "pods") == []
    assert world.asked("get", "pods") == []
    assert len(world.asked("update", "frameworks", "status")) < 20


def test_a_failed_task_is_run_again_within_its_budget(world: World) -> None:
    role = a_role(tasks=2, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    world.submit(a_framework(role))
    world.running("mnist-worker-0", "mnist-worker-1")
    first = world.pods()["mnist-worker-0"]["metadata"]["uid"]

    world.end("mnist-worker-0", "failed", "7")
    world.replaced("mnist-worker-0", first)
    retries = world.task()["retryPolicyStatus"]["totalRetriedCount"]
    world.end("mnist-worker-0", "succeeded")
    world.end("mnist-worker-1", "succeeded")

    assert retries == 1
    assert ended(world.completed()) == "Succeeded"
    assert len(world.asked("create", "pods")) == 3
    assert len(world.asked("delete", "pods")) == 1
    (told,) = world.until(lambda: world.events("ContainerUnrecognizedFailed") or None, "the failure is told")
    assert told == "task worker[0]: ContainerUnrecognizedFailed (7); tried again at once: retry 1 of 1"


def test_a_failed_attempt_is_run_again_with_all_its_tasks(world: World) -> None:
    roles = [a_role("ps", 1, pod=a_task_pod()), a_role("worker", 1, pod=a_task_pod())]
    world.submit(a_framework(*roles, retryPolicy={"maxRetryCount": 1}))
    world.running("mnist-ps-0", "mnist-worker-0")
    first = world.pods()["mnist-ps-0"]["metadata"]["uid"]

    world.end("mnist-worker-0", "failed")
    world.replaced("mnist-ps-0", first)
    world.running("mnist-ps-0", "mnist-worker-0")
    attempt = world.framework()["status"]["attemptStatus"]["id"]
    world.end("mnist-ps-0", "succeeded")
    world.end("mnist-worker-0", "succeeded")

    assert attempt == 1
    assert ended(world.completed()) == "Succeeded"
    assert len(world.asked("create", "pods")) == 4
    assert len(world.asked("delete", "pods")) == 2


def test_what_has_failed_for_good_says_why(world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("failed", exit_code="7"))))

    framework = world.completed()

    assert ended(framework) == "Failed"
    assert completion(framework)["code"] == 7
    assert completion(framework)["trigger"]["taskRoleName"] == "worker"
    world.until(lambda: world.events("FrameworkFailed") or None, "its end is told")


@pytest.mark.parametrize(
    ("policy", "ends", "result"),
    [
        pytest.param({"minSucceededTaskCount": 1}, "succeeded", "Succeeded", id="one success is enough"),
        pytest.param({"minFailedTaskCount": 1}, "failed", "Failed", id="one failure is too many"),
    ],
)
def test_one_task_may_decide_and_the_others_are_ended(
    world: World, policy: dict[str, int], ends: str, result: str
) -> None:
    role = a_role(tasks=3, pod=a_task_pod(), frameworkAttemptCompletionPolicy=policy)
    world.submit(a_framework(role))
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    world.end("mnist-worker-1", ends)

    assert ended(world.completed()) == result
    assert list(world.pods()) == ["mnist-worker-1"]
    assert len(world.asked("delete", "pods")) == 2


def test_failures_below_the_threshold_are_borne(world: World) -> None:
    role = a_role(tasks=2, pod=a_task_pod(), frameworkAttemptCompletionPolicy={"minFailedTaskCount": 2})
    world.submit(a_framework(role))
    world.running("mnist-worker-0", "mnist-worker-1")

    world.end("mnist-worker-0", "failed")
    world.end("mnist-worker-1", "succeeded")

    assert ended(world.completed()) == "Succeeded"


def test_a_stopped_framework_ends_with_its_pods_gone(world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    world.running("mnist-worker-0", "mnist-worker-1")

    world.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Stop"}}')

    assert completion(world.completed())["code"] == -210
    assert world.pods() == {}
    assert len(world.asked("delete", "pods")) == 2


@pytest.mark.timeout(2 * NOW_AND_THEN)
@pytest.mark.parametrize("way", ["background", "foreground"])
def test_a_deleted_framework_takes_its_pods_with_it(world: World, way: str) -> None:
    world.submit(a_framework(a_role(tasks=3, pod=a_task_pod())))
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2")

    world.kubectl("delete", "fw", "mnist", f"--cascade={way}", f"--timeout={NOW_AND_THEN:g}s")
    world.until(lambda: (not world.pods()) or None, "no pod is left", NOW_AND_THEN)

    assert world.framework() == {}
    assert len(world.asked("create", "pods")) == 3, "none was made anew while the others went"
    assert len(world.asked("delete", "pods")) <= 3


def test_a_pod_that_somebody_deletes_is_made_anew_when_its_task_may_be_retried(world: World) -> None:
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    world.submit(a_framework(role))
    world.running("mnist-worker-0")
    first = world.pods()["mnist-worker-0"]["metadata"]["uid"]

    world.take_away("pod", "mnist-worker-0")
    world.replaced("mnist-worker-0", first)
    world.take_away("pod", "mnist-worker-0")

    framework = world.completed()
    assert completion(framework)["code"] == -101
    assert len(world.asked("create", "pods")) == 2
    assert world.asked("delete", "pods") == []


@pytest.mark.timeout(2 * NOW_AND_THEN)
def test_a_node_that_is_gone_takes_its_tasks_with_it_and_they_run_elsewhere(world: World) -> None:
    role = a_role(tasks=1, pod=a_task_pod())
    role["task"]["retryPolicy"] = {"maxRetryCount": 1}
    world.submit(a_framework(role))
    world.running("mnist-worker-0")
    pod = world.pods()["mnist-worker-0"]
    path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
    node = world.cluster.admin.get(path)

    world.cluster.admin.delete(path)
    try:
        world.replaced("mnist-worker-0", pod["metadata"]["uid"], NOW_AND_THEN)
        elsewhere = world.pods()["mnist-worker-0"]["spec"]["nodeName"]
    finally:
        del node["metadata"]["resourceVersion"], node["metadata"]["uid"]
        world.cluster.admin.post("/api/v1/nodes", node)

    assert elsewhere != pod["spec"]["nodeName"]
    assert len(world.asked("create", "pods")) == 2


def test_tasks_can_be_added_and_taken_away_while_it_runs(world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    world.running("mnist-worker-0", "mnist-worker-1")
    number = '[{"op":"replace","path":"/spec/taskRoles/0/taskNumber","value":%d}]'

    world.kubectl("patch", "fw", "mnist", "--type=json", "-p", number % 4)
    world.running("mnist-worker-0", "mnist-worker-1", "mnist-worker-2", "mnist-worker-3")
    world.kubectl("patch", "fw", "mnist", "--type=json", "-p", number % 1)
    world.running("mnist-worker-0")

    assert len(world.asked("create", "pods")) == 4
    assert len(world.asked("delete", "pods")) == 3


@pytest.mark.timeout(2 * NOW_AND_THEN)
def test_an_ended_framework_goes_when_its_time_is_over(world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), ttlSecondsAfterFinished=2))

    world.until(lambda: (not world.framework()) or None, "the Framework is gone", NOW_AND_THEN)
    world.until(lambda: (not world.pods()) or None, "its pod is gone", NOW_AND_THEN)

    assert len(world.asked("delete", "frameworks")) == 1


def test_a_framework_is_started_when_its_user_says_so(world: World) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_task_pod("succeeded")), executionType="Create"))
    world.until(lambda: world.framework().get("status"), "it is known")

    world.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Start"}}')

    assert ended(world.completed()) == "Succeeded"
