"""Exits of containers on real nodes, and their completion codes."""

from typing import Any

import pytest

from tests.builders import a_framework, a_role
from tests.kubernetes.namespace_client import NamespaceClient
from tests.local.server import ended
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import SLEEP_COMMAND, a_real_pod, host_data_mount, host_data_volume

pytestmark = pytest.mark.usefixtures("shared_launcher")

#: The kubelet replaces ``$$`` by ``$``; and the first process of a container cannot be killed from inside.
KILLED_BY_ITSELF = "sh -c 'kill -SEGV $$$$'; exit $?"


def completion(ns: NamespaceClient, index: int = 0) -> Any:
    return ns.task(index)["attemptStatus"]["completionStatus"]


def test_a_framework_of_two_tasks_succeeds(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_real_pod("echo task $taskindex"))))

    framework = ns.wait_completed()

    assert ended(framework) == "Succeeded"
    assert [ns.kubectl("logs", f"mnist-worker-{index}") for index in (0, 1)] == ["task 0\n", "task 1\n"]


@pytest.mark.parametrize(
    ("script", "code", "phrase", "attributes"),
    [
        pytest.param("exit 7", 7, "ContainerUnrecognizedFailed", [], id="an unrecognized code"),
        pytest.param(
            "exit 210", 210, "ContainerPermanentFailed", ["Permanent"], id="a code with a predefined meaning"
        ),
        pytest.param(KILLED_BY_ITSELF, 139, "ContainerSigSegvReceived", ["Permanent"], id="a signal"),
    ],
)
def test_an_exit_code_is_in_the_status(
    ns: NamespaceClient, script: str, code: int, phrase: str, attributes: list[str]
) -> None:
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(script))))

    framework = ns.wait_completed()
    status = completion(ns)

    assert ended(framework) == "Failed"
    assert (status["code"], status["phrase"]) == (code, phrase)
    assert (status["type"].get("attributes") or []) == attributes
    assert status["pod"]["containers"][0]["code"] == code


def test_an_out_of_memory_container_is_distinguished_from_a_killed_one(ns: NamespaceClient) -> None:
    limited = {"resources": {"limits": {"memory": "32Mi"}}}
    # In one process, which is the one that is killed.
    greedy = "exec tail -c 200m /dev/zero"
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(greedy, container=limited))))

    ns.wait_completed()
    status = completion(ns)

    assert (status["code"], status["phrase"]) == (-1200, "ContainerDockerOOMKilled")
    assert status["pod"]["containers"] == [{"name": "main", "reason": "OOMKilled", "code": 137}]


def test_a_missing_program_fails_with_the_message_of_the_runtime(ns: NamespaceClient) -> None:
    missing = {"command": ["/no/such/program"]}
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod("", container=missing))))

    framework = ns.wait_completed()
    (container,) = completion(ns)["pod"]["containers"]

    assert ended(framework) == "Failed"
    assert container["code"] == 128
    assert "no such file or directory" in container["message"]


def test_a_failed_task_is_retried_in_a_new_pod_until_no_retries_are_left(ns: NamespaceClient) -> None:
    role = a_role(tasks=1, pod=a_real_pod("echo $FC_TASK_ATTEMPT_ID; exit 1"))
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 2}
    ns.submit(a_framework(role))

    framework = ns.wait_completed()

    assert ended(framework) == "Failed"
    assert ns.task()["retryPolicyStatus"]["totalRetriedCount"] == 2
    assert ns.task()["attemptStatus"]["id"] == 2
    assert ns.kubectl("logs", "mnist-worker-0") == "2\n"
    assert len(ns.launcher_requests("create", "pods")) == 3


def test_a_log_is_followed_while_it_is_written(ns: NamespaceClient) -> None:
    script = "for n in 1 2 3; do echo line $n; sleep 4; done"
    ns.submit(a_framework(a_role(tasks=1, pod=a_real_pod(script))))
    ns.wait_running("mnist-worker-0")

    assert ns.kubectl("logs", "--follow", "mnist-worker-0") == "line 1\nline 2\nline 3\n"


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("exit 0", id="ends at once"),
        pytest.param(":", id="continues until it is killed"),
    ],
)
def test_a_stopped_framework_completes_when_its_containers_have_ended(
    bed: RealNodes, ns: NamespaceClient, then: str
) -> None:
    script = f"trap 'echo got SIGTERM >/host/{ns.namespace}; {then}' TERM; while :; do sleep 0.1; done"
    pod = a_real_pod(script, container=host_data_mount(), **host_data_volume("node-1"))
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))
    ns.wait_running("mnist-worker-0")

    ns.kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec":{"executionType":"Stop"}}')
    framework = ns.wait_completed()

    assert framework["status"]["attemptStatus"]["completionStatus"]["phrase"] == "StopFrameworkRequested"
    assert (bed.nodes["node-1"].data / ns.namespace).read_text() == "got SIGTERM\n"
    assert ns.pods() == {}


def test_a_deleted_framework_exists_until_its_containers_have_ended(ns: NamespaceClient) -> None:
    ns.submit(a_framework(a_role(tasks=2, pod=a_real_pod(SLEEP_COMMAND))))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")

    ns.kubectl("delete", "fw", "mnist", "--cascade=foreground", "--timeout=60s")

    assert ns.pods() == {}


def test_a_container_that_writes_nothing_stalls_and_its_last_line_is_kept(ns: NamespaceClient) -> None:
    role = a_role(tasks=1, pod=a_real_pod("echo step 7; exec sleep 600"))
    role["task"]["progressDeadlineSeconds"] = 4
    ns.submit(a_framework(role))

    framework = ns.wait_completed()

    assert completion(ns)["phrase"] == "Stalled"
    assert "last output: step 7" in framework["status"]["message"]


@pytest.mark.parametrize(
    ("script", "container", "reason"),
    [
        pytest.param("true", {"image": "NOT A NAME"}, "InvalidImageName", id="invalid image name"),
        pytest.param(
            "true", {"command": ["/does/not/exist"]}, "/does/not/exist", id="the command does not exist"
        ),
    ],
)
def test_a_container_that_can_never_start_fails(
    ns: NamespaceClient, script: str, container: dict[str, Any], reason: str
) -> None:
    pod = a_real_pod(script, container=container)
    pod["spec"]["restartPolicy"] = "OnFailure"
    ns.submit(a_framework(a_role(tasks=1, pod=pod)))

    framework = ns.wait_completed()

    assert (completion(ns)["code"], ended(framework)) == (-201, "Failed")
    assert reason in framework["status"]["message"]
