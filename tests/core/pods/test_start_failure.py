"""Pods that can never start, recognised by their status."""

from typing import Any

import pytest

from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.pods.start_failure import EXCEEDS_CAPACITY, StartFailure, start_failure

CREATED = 1_767_225_600
SCHEDULED_AT = CREATED + 5
Json = dict[str, Any]


def a_status(*containers: Json, **members: Any) -> Json:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    return {"phase": "Pending", "conditions": [scheduled], "containerStatuses": list(containers), **members}


def waiting(reason: str, message: str = "", last: Json | None = None) -> Json:
    last_state = {} if last is None else {"lastState": {"terminated": last}}
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}, **last_state}


NOT_FOUND = 'exec: "trian.py": executable file not found in $PATH: unknown'


@pytest.mark.parametrize(
    ("container", "grace"),
    [
        pytest.param(
            waiting("InvalidImageName", 'couldn\'t parse image name "a b"'), 10, id="invalid image name"
        ),
        pytest.param(
            waiting("CrashLoopBackOff", "back-off", {"reason": "StartError", "message": NOT_FOUND}),
            10,
            id="the command does not exist, in a pod that restarts it",
        ),
        pytest.param(
            waiting("RunContainerError", "x", {"reason": "StartError", "message": "exec: permission denied"}),
            10,
            id="the command may not be executed",
        ),
        pytest.param(
            waiting("CreateContainerConfigError", 'secret "token" not found'), 120, id="missing Secret"
        ),
        pytest.param(
            waiting("CreateContainerConfigError", 'configmap "settings" not found'),
            120,
            id="missing ConfigMap",
        ),
        pytest.param(
            waiting("CreateContainerConfigError", "couldn't find key a in Secret default/token"),
            120,
            id="missing key",
        ),
        pytest.param(
            waiting("ContainerCreating", 'MountVolume.SetUp failed for volume "v": secret "token" not found'),
            120,
            id="missing Secret of a volume, in local mode",
        ),
        pytest.param(
            waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
            10,
            id="runAsNonRoot with an image of root",
        ),
        pytest.param(
            waiting("CreateContainerError", "failed to generate spec: no command specified"),
            0,
            id="an image without a command",
        ),
    ],
)
def test_a_container_that_can_never_start_fails_after_a_grace(container: Json, grace: int) -> None:
    failure = start_failure(a_status(container), CREATED)

    assert failure is not None
    assert failure.fails_at == SCHEDULED_AT + grace
    assert failure.reason


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(waiting("ErrImagePull", "429 Too Many Requests"), id="a registry that limits requests"),
        pytest.param(waiting("ImagePullBackOff", "manifest unknown"), id="an image that may be pushed later"),
        pytest.param(
            waiting("CreateContainerConfigError", "failed to sync secret cache: timed out waiting"),
            id="a cache that is not synced",
        ),
        pytest.param(
            waiting("CreateContainerError", "context deadline exceeded"), id="a runtime that is slow"
        ),
        pytest.param(
            waiting(
                "CrashLoopBackOff", "back-off", {"reason": "Error", "exitCode": 1, "message": "not found"}
            ),
            id="a program that ran and failed",
        ),
        pytest.param(waiting("ContainerCreating"), id="a container that is being created"),
        pytest.param({"name": "main", "state": {"running": {}}}, id="a running container"),
    ],
)
def test_a_container_that_may_start_later_has_no_failure(container: Json) -> None:
    assert start_failure(a_status(container), CREATED) is None


def test_an_init_container_is_compared_too() -> None:
    status = a_status(waiting("PodInitializing"), initContainerStatuses=[waiting("InvalidImageName", "x")])

    assert start_failure(status, CREATED) == StartFailure(
        "container main: InvalidImageName: x", SCHEDULED_AT + 10
    )


@pytest.mark.parametrize(("is_scheduled", "fails"), [("False", True), ("True", False)])
def test_a_request_that_exceeds_every_node_fails_while_the_pod_is_unscheduled(
    is_scheduled: str, fails: bool
) -> None:
    conditions = [
        {"type": "PodScheduled", "status": is_scheduled, "message": "0/1 nodes"},
        {
            "type": EXCEEDS_CAPACITY,
            "status": "True",
            "message": "Insufficient cpu",
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        },
    ]

    failure = start_failure({"conditions": conditions}, CREATED)

    assert (failure is not None) is fails
    if failure is not None:
        assert failure.fails_at == CREATED + 70
        assert "Insufficient cpu" in failure.reason


def test_an_observed_pod_has_its_failure() -> None:
    pod = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": a_status(waiting("InvalidImageName", "x")),
    }

    assert pod_from_json(pod).start_failure is not None
    pod["status"] = a_status({"name": "main", "state": {"running": {}}}, phase="Running")
    assert pod_from_json(pod).start_failure is None
