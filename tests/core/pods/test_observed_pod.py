"""Pods as the planner observes them."""

from typing import Any

import pytest

from launcher.core.planning.actions import DeletePod
from launcher.core.planning.task_transitions import deletion_action
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.timestamps import parse_rfc3339
from tests.builders import a_pod

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
OWNER = {"uid": "owner", "controller": True}


def a_pod_json(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod of a Framework, with this status."""
    known = {"uid": "u", "resourceVersion": "17", "creationTimestamp": CREATED}
    return {**a_pod("f-w-0", metadata={**known, **metadata}), "status": status}


def waiting(reason: str | None, message: str | None = None) -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


def restarted(code: int, reason: str) -> dict[str, Any]:
    last = {"terminated": {"exitCode": code, "reason": reason}}
    return {**waiting("CrashLoopBackOff", "back-off 10s"), "lastState": last}


def unscheduled(reason: str | None = None, message: str | None = None) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def test_a_new_pod_is_pending_and_has_no_node() -> None:
    pod = pod_from_json(a_pod_json())

    assert (pod.name, pod.uid, pod.version, pod.created) == ("f-w-0", "u", 17, parse_rfc3339(CREATED))
    assert (pod.phase, pod.node, pod.ip, pod.host_ip, pod.ready) == ("Pending", None, None, None, False)
    assert (pod.deleting, pod.terminated, pod.terminal_status, pod.task) == (False, False, None, None)


def test_a_running_pod_has_its_node_and_readiness() -> None:
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "hostIP": "192.0.2.1",
        "conditions": [{"type": "Ready", "status": "True"}],
    }

    pod = pod_from_json({**a_pod_json(status), "spec": {"nodeName": "n1"}})

    assert (pod.phase, pod.node, pod.ip, pod.host_ip, pod.ready) == (
        "Running",
        "n1",
        "10.0.0.1",
        "192.0.2.1",
        True,
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminated_pod_has_its_status(phase: str) -> None:
    status = {"phase": phase, "reason": "Evicted"}

    pod = pod_from_json(a_pod_json(status))

    assert (pod.terminated, pod.terminal_status) == (True, status)


def test_the_deletion_request_precedes_the_deletion_timestamp_by_the_grace_period() -> None:
    pod = pod_from_json(a_pod_json(deletionTimestamp=LATER, deletionGracePeriodSeconds=30))

    assert pod.deletion_requested == parse_rfc3339(LATER) - 30
    assert pod.deleting


def test_an_interrupted_deletion_is_repeated_after_a_delay() -> None:
    pod = pod_from_json(a_pod_json(deletionTimestamp=LATER, deletionGracePeriodSeconds=0))
    requested_at = parse_rfc3339(LATER)

    assert deletion_action(pod, None, requested_at) == (None, requested_at + 10)
    assert deletion_action(pod, 3, requested_at) == (None, requested_at + 3)
    assert deletion_action(pod, None, requested_at + 10) == (DeletePod(pod.name, pod.uid, force=True), None)


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"deletionGracePeriodSeconds": 30}, id="its node"),
        pytest.param({"deletionGracePeriodSeconds": 0, "finalizers": ["a.b/c"]}, id="a finalizer"),
    ],
)
def test_a_deletion_that_waits_for_a_node_or_finalizer_is_not_repeated(meta: dict[str, Any]) -> None:
    pod = pod_from_json(a_pod_json(deletionTimestamp=LATER, **meta))

    assert deletion_action(pod, None, parse_rfc3339(LATER) + 3600) == (None, None)


@pytest.mark.parametrize(
    ("references", "owner"),
    [
        ([OWNER], "owner"),
        ([{"uid": "other"}, OWNER], "owner"),
        ([{"uid": "other", "controller": False}], ""),
        (None, ""),
    ],
)
def test_only_a_controller_owns_a_pod(references: list[dict[str, Any]] | None, owner: str) -> None:
    assert pod_from_json(a_pod_json(ownerReferences=references)).owner == owner


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param({}, "", id="no reason"),
        pytest.param(
            {"conditions": [unscheduled("Unschedulable", "0/3 nodes")]},
            "Unschedulable: 0/3 nodes",
            id="no node",
        ),
        pytest.param(
            {"conditions": [unscheduled()]},
            "Unschedulable: no node is suitable",
            id="no node, without a message",
        ),
        pytest.param(
            {"containerStatuses": [waiting("ImagePullBackOff", "no such image")]},
            "ImagePullBackOff: no such image",
            id="no image",
        ),
        pytest.param(
            {"containerStatuses": [waiting("ErrImagePull")]},
            "ErrImagePull: container main",
            id="no image, without a message",
        ),
        pytest.param({"containerStatuses": [waiting("ContainerCreating")]}, "", id="starting"),
        pytest.param(
            {"containerStatuses": [waiting("PodInitializing")]}, "", id="waiting for its init containers"
        ),
        pytest.param(
            {"initContainerStatuses": [waiting("CrashLoopBackOff", "again")], "containerStatuses": None},
            "CrashLoopBackOff: again",
            id="an init container",
        ),
        pytest.param(
            {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff", "back-off 10s")]},
            "CrashLoopBackOff: back-off 10s",
            id="a container of a running pod",
        ),
        pytest.param(
            {"containerStatuses": [waiting("ContainerCreating", "no volume")]},
            "ContainerCreating: no volume",
            id="starting, with a message",
        ),
        pytest.param(
            {"containerStatuses": [restarted(137, "OOMKilled")]},
            "container main failed and is restarted: exit code 137 (OOMKilled)",
            id="a crash loop, with the last exit instead of the back-off",
        ),
    ],
)
def test_the_message_of_a_pod_that_does_not_run(status: dict[str, Any], message: str) -> None:
    assert pod_from_json(a_pod_json(status)).pending_reason == message
