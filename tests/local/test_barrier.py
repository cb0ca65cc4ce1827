"""FrameworkController templates with its barrier, on a machine without its image."""

from typing import Any

from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, ended

#: From FrameworkController's examples.
BARRIER = {
    "name": "frameworkbarrier",
    "image": "frameworkcontroller/frameworkbarrier",
    "volumeMounts": [{"name": "frameworkbarrier-volume", "mountPath": "/mnt/frameworkbarrier"}],
}
#: The flags of a script with two ports, then one more.
MAIN = (
    "export FB_WORKER_PORT=4001 FB_PS_PORT=4002; . /mnt/frameworkbarrier/injector.sh;"
    'echo "mine: $FB_WORKER_IPS $FB_WORKER_ADDRESSES $FB_PS_ADDRESSES";'
    "export FB_PS_PORT=5002; . /mnt/frameworkbarrier/injector.sh >/dev/null;"
    'echo "mine: $FB_PS_ADDRESSES";'
    'grep -q \'"name":"gang"\' /mnt/frameworkbarrier/framework.json'
)


def a_gang(*, barrier: dict[str, Any], main: str, **spec: Any) -> dict[str, Any]:
    """Two workers and a parameter server with the *barrier* as init container."""
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "initContainers": [barrier],
        "containers": [
            {
                "name": "main",
                "image": "any",
                "command": ["/bin/bash", "-c", main],
                "volumeMounts": [{"name": "frameworkbarrier-volume", "mountPath": "/mnt/frameworkbarrier"}],
            }
        ],
        "volumes": [{"name": "frameworkbarrier-volume", "emptyDir": {}}],
    }
    roles = [
        {
            "name": name,
            "taskNumber": tasks,
            "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
            "task": {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0}, "pod": {"spec": pod}},
        }
        for name, tasks in (("worker", 2), ("ps", 1))
    ]
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "gang"},
        "spec": {"executionType": "Start", **spec, "taskRoles": roles},
    }


def test_i1_i9_a_template_with_the_barriers_image_finds_its_peers(serve: Serve) -> None:
    server = serve("--node=one,ip=127.0.0.11", "--node=two,ip=127.0.0.12")

    server.post(FRAMEWORKS, a_gang(barrier=BARRIER, main=MAIN))

    assert ended(server.completed("gang")) == "Succeeded"
    address = {
        pod["metadata"]["name"].removeprefix("gang-"): pod["status"]["podIP"]
        for pod in server.get(PODS)["items"]
    }
    workers = [address["worker-0"], address["worker-1"]]
    output = [line for line in server.log("gang-ps-0").splitlines() if line.startswith("mine: ")]
    ports = ",".join(f"{ip}:4001" for ip in workers)
    assert output == [
        f"mine: {','.join(workers)} {ports} {address['ps-0']}:4002",
        f"mine: {address['ps-0']}:5002",
    ]


def test_i10_a_barrier_timeout_retries_the_whole_framework_after_a_delay(serve: Serve) -> None:
    server = serve()
    timed_out_barrier = {
        "name": "frameworkbarrier",
        "image": "any",
        "command": ["/bin/sh", "-c", '[ "$FC_TASKROLE_NAME" != ps ] || exit 201; sleep 600'],
    }
    policy = {"fancyRetryPolicy": True, "maxRetryCount": 0}

    server.post(FRAMEWORKS, a_gang(barrier=timed_out_barrier, main="true", retryPolicy=policy))

    def to_be_retried() -> Any:
        status = server.framework("gang").get("status") or {}
        return status if (status.get("retryPolicyStatus") or {}).get("retryDelaySec") is not None else None

    status = until(to_be_retried, "the attempt is completed and will be retried")
    assert status["attemptStatus"]["completionStatus"]["code"] == 201
    assert 60 <= status["retryPolicyStatus"]["retryDelaySec"] <= 900
    assert status["retryPolicyStatus"]["accountableRetriedCount"] == 0

    def remaining_pods() -> list[str] | None:
        pods = server.get(PODS)["items"]
        terminating = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        all_failed = all(pod["status"]["phase"] == "Failed" for pod in pods)
        return [pod["metadata"]["name"] for pod in pods] if all_failed and not terminating else None

    # The failed pod is retained for troubleshooting, and deleted before the retry.
    assert until(remaining_pods, "all other pods are deleted") == ["gang-ps-0"]
