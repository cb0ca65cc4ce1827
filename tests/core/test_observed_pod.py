"""A pod as the plan sees it."""

from typing import Any

import pytest

from launcher.core.planning.actions import DeletePod
from launcher.core.planning.task_transitions import deletion_action
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.timestamps import parse_rfc3339

CREATED, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
OWNER = {"uid": "owner", "controller": True}


def a_pod(status: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A pod of ours with this status."""
    metadata = {"name": "f-w-0", "uid": "u", "resourceVersion": "17", "creationTimestamp": CREATED, **meta}
    return {"metadata": metadata, "spec": {}, "status": status}


def waiting(reason: str | None, message: str | None = None) -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


def unscheduled(reason: str | None = None, message: str | None = None) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def test_a_pod_that_nobody_has_looked_at_yet_is_pending_and_nowhere() -> None:
    pod = pod_from_json(a_pod())

    assert (pod.name, pod.uid, pod.version, pod.created) == ("f-w-0", "u", 17, parse_rfc3339(CREATED))
    assert (pod.phase, pod.node, pod.ip, pod.host_ip, pod.ready) == ("Pending", None, None, None, False)
    assert (pod.deleting, pod.ended, pod.end, pod.task) == (False, False, None, None)


def test_a_pod_that_runs_says_where_and_whether_it_is_ready() -> None:
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "hostIP": "192.0.2.1",
        "conditions": [{"type": "Ready", "status": "True"}],
    }

    pod = pod_from_json({**a_pod(status), "spec": {"nodeName": "n1"}})

    assert (pod.phase, pod.node, pod.ip, pod.host_ip, pod.ready) == (
        "Running",
        "n1",
        "10.0.0.1",
        "192.0.2.1",
        True,
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_brings_its_status_along(phase: str) -> None:
    status = {"phase": phase, "reason": "Evicted"}

    pod = pod_from_json(a_pod(status))

    assert (pod.ended, pod.end) == (True, status)


def test_the_deletion_was_asked_for_one_grace_before_it_is_due() -> None:
    pod = pod_from_json(a_pod(deletionTimestamp=LATER, deletionGracePeriodSeconds=30))

    assert pod.deletion_asked == parse_rfc3339(LATER) - 30
    assert pod.deleting


def test_a_deletion_that_was_cut_off_half_way_is_made_good_after_a_while() -> None:
    pod = pod_from_json(a_pod(deletionTimestamp=LATER, deletionGracePeriodSeconds=0))
    asked = parse_rfc3339(LATER)

    assert deletion_action(pod, None, asked) == (None, asked + 10)
    assert deletion_action(pod, 3, asked) == (None, asked + 3)
    assert deletion_action(pod, None, asked + 10) == (DeletePod(pod.name, pod.uid, force=True), None)


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"deletionGracePeriodSeconds": 30}, id="its node"),
        pytest.param({"deletionGracePeriodSeconds": 0, "finalizers": ["a.b/c"]}, id="a finalizer"),
    ],
)
def test_a_deletion_that_something_holds_up_is_waited_for(meta: dict[str, Any]) -> None:
    pod = pod_from_json(a_pod(deletionTimestamp=LATER, **meta))

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
    assert pod_from_json(a_pod(ownerReferences=references)).owner == owner


@pytest.mark.parametrize(
    ("status", "hindrance"),
    [
        pytest.param({}, "", id="nothing is known"),
        pytest.param(
            {"conditions": [unscheduled("Unschedulable", "0/3 nodes")]},
            "Unschedulable: 0/3 nodes",
            id="no node",
        ),
        pytest.param(
            {"conditions": [unscheduled()]}, "Unschedulable: no node fits", id="no node, in no words"
        ),
        pytest.param(
            {"containerStatuses": [waiting("ImagePullBackOff", "no such image")]},
            "ImagePullBackOff: no such image",
            id="no image",
        ),
        pytest.param(
            {"containerStatuses": [waiting("ErrImagePull")]},
            "ErrImagePull: container main",
            id="no image, in no words",
        ),
        pytest.param({"containerStatuses": [waiting("ContainerCreating")]}, "", id="on its way"),
        pytest.param(
            {"containerStatuses": [waiting("PodInitializing")]}, "", id="waits for its init containers"
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
            id="on its way, with a message",
        ),
    ],
)
def test_what_keeps_a_pod_from_running(status: dict[str, Any], hindrance: str) -> None:
    assert pod_from_json(a_pod(status)).pending_reason == hindrance
