"""How containers end on real nodes, and what the launcher makes of it."""

from typing import Any

import pytest

from tests.core.manifests import a_framework, a_role
from tests.kubernetes.world import World
from tests.local.server import ended
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import FOREVER, a_real_pod, has_host_data, sees_host_data

pytestmark = pytest.mark.usefixtures("shared_launcher")

#: Kubelet reads a doubled dollar sign as one; and the first process of a container cannot be killed from inside.
KILLED_BY_ITSELF = "sh -c 'kill -SEGV $$$$'; exit $?"


def completion(world: World, index: int = 0) -> Any:
    return world.task(index)["attemptStatus"]["completionStatus"]


def test_a_framework_of_two_tasks_succeeds(world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_real_pod("echo task $taskindex"))))

    framework = world.completed()

    assert ended(framework) == "Succeeded"
    assert [world.kubectl("logs", f"mnist-worker-{index}") for index in (0, 1)] == ["task 0\n", "task 1\n"]


@pytest.mark.parametrize(
    ("script", "code", "phrase", "attributes"),
    [
        pytest.param("exit 7", 7, "ContainerUnrecognizedFailed", [], id="a code of its own"),
        pytest.param(
            "exit 210", 210, "ContainerPermanentFailed", ["Permanent"], id="a code that is agreed on"
        ),
        pytest.param(KILLED_BY_ITSELF, 139, "ContainerSigSegvReceived", ["Permanent"], id="a signal"),
    ],
)
def test_an_exit_code_is_told_as_it_is(
    world: World, script: str, code: int, phrase: str, attributes: list[str]
) -> None:
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod(script))))

    framework = world.completed()
    status = completion(world)

    assert ended(framework) == "Failed"
    assert (status["code"], status["phrase"]) == (code, phrase)
    assert (status["type"].get("attributes") or []) == attributes
    assert status["pod"]["containers"][0]["code"] == code


def test_a_container_that_takes_too_much_memory_is_told_from_one_that_was_killed(world: World) -> None:
    limited = {"resources": {"limits": {"memory": "32Mi"}}}
    # All of it in one process, which is the one to go.
    greedy = "exec tail -c 200m /dev/zero"
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod(greedy, container=limited))))

    world.completed()
    status = completion(world)

    assert (status["code"], status["phrase"]) == (-1200, "ContainerDockerOOMKilled")
    assert status["pod"]["containers"] == [{"name": "main", "reason": "OOMKilled", "code": 137}]


def test_a_program_that_is_not_there_is_a_failure_in_the_runtimes_words(world: World) -> None:
    missing = {"command": ["/no/such/program"]}
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod("", container=missing))))

    framework = world.completed()
    (container,) = completion(world)["pod"]["containers"]

    assert ended(framework) == "Failed"
    assert container["code"] == 128
    assert "no such file or directory" in container["message"]


def test_a_failed_task_runs_again_in_a_new_pod_until_its_retries_are_used_up(world: World) -> None:
    role = a_role(tasks=1, pod=a_real_pod("echo $FC_TASK_ATTEMPT_ID; exit 1"))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 2}
    world.submit(a_framework(role))

    framework = world.completed()

    assert ended(framework) == "Failed"
    assert world.task()["retryPolicyStatus"]["totalRetriedCount"] == 2
    assert world.task()["attemptStatus"]["id"] == 2
    assert world.kubectl("logs", "mnist-worker-0") == "2\n"
    assert len(world.asked("create", "pods")) == 3


def test_a_log_is_followed_while_it_is_written(world: World) -> None:
    script = "for n in 1 2 3; do echo line $n; sleep 4; done"
    world.submit(a_framework(a_role(tasks=1, pod=a_real_pod(script))))
    world.running("mnist-worker-0")

    assert world.kubectl("logs", "--follow", "mnist-worker-0") == "line 1\nline 2\nline 3\n"


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("exit 0", id="ends at once"),
        pytest.param(":", id="goes on until it is killed"),
    ],
)
def test_a_stopped_framework_asks_its_containers_to_end_and_is_over_when_they_have(
    bed: RealNodes, world: World, then: str
) -> None:
    script = f"trap 'echo asked to end >/host/{world.namespace}; {then}' TERM; while :; do sleep 0.1; done"
    pod = a_real_pod(script, container=sees_host_data(), **has_host_data("node-1"))
    world.submit(a_framework(a_role(tasks=1, pod=pod)))
    world.running("mnist-worker-0")

    world.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Stop"}}')
    framework = world.completed()

    assert framework["status"]["attemptStatus"]["completionStatus"]["phrase"] == "StopFrameworkRequested"
    assert (bed.nodes["node-1"].data / world.namespace).read_text() == "asked to end\n"
    assert world.pods() == {}


def test_a_deleted_framework_is_gone_only_when_its_containers_have_ended(world: World) -> None:
    world.submit(a_framework(a_role(tasks=2, pod=a_real_pod(FOREVER))))
    world.running("mnist-worker-0", "mnist-worker-1")

    world.kubectl("delete", "fw", "mnist", "--cascade=foreground", "--timeout=60s")

    assert world.pods() == {}
