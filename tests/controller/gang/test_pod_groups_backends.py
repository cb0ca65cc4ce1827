"""The pod groups and pod overlays of each gang scheduler."""

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.errors import InvalidObject
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object
from tests.builders import Json, a_pod_template, a_role
from tests.controller.gang.builders import a_gang_request, a_pod_requesting

_WORKER = RoleName("worker")


@pytest.mark.parametrize(
    ("backend", "spec"),
    [
        pytest.param(volcano.BACKEND, {"minMember": 3}, id="Volcano"),
        pytest.param(scheduler_plugins.BACKEND, {"minMember": 3}, id="scheduler-plugins"),
        pytest.param(native.V1BETA1, {"schedulingPolicy": {"gang": {"minCount": 3}}}, id="Kubernetes 1.37"),
        pytest.param(native.V1ALPHA2, {"schedulingPolicy": {"gang": {"minCount": 3}}}, id="Kubernetes 1.36"),
        pytest.param(
            native.V1ALPHA1,
            {"podGroups": [{"name": "gang", "policy": {"gang": {"minCount": 3}}}]},
            id="Kubernetes 1.35",
        ),
    ],
)
def test_the_group_contains_all_tasks_except_background_roles(backend: PodGroupBackend, spec: Object) -> None:
    request = a_gang_request(a_role("ps", 1), a_role("worker", 2), a_role("board", 5, background=True))

    assert backend.group_spec(request) == spec
    assert backend.min_member({"spec": spec}) == 3


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        pytest.param(
            volcano.BACKEND,
            PodOverlay(
                annotations={"scheduling.k8s.io/group-name": "mnist-2", "volcano.sh/task-spec": "worker"},
                defaults={"schedulerName": "volcano"},
            ),
            id="Volcano",
        ),
        pytest.param(
            scheduler_plugins.BACKEND,
            PodOverlay(
                labels={"scheduling.x-k8s.io/pod-group": "mnist-2"},
                defaults={"schedulerName": "scheduler-plugins-scheduler"},
            ),
            id="scheduler-plugins",
        ),
        pytest.param(
            native.V1BETA1,
            PodOverlay(spec={"schedulingGroup": {"podGroupName": "mnist-2"}}),
            id="Kubernetes 1.37",
        ),
        pytest.param(
            native.V1ALPHA2,
            PodOverlay(spec={"schedulingGroup": {"podGroupName": "mnist-2"}}),
            id="Kubernetes 1.36",
        ),
        pytest.param(
            native.V1ALPHA1,
            PodOverlay(spec={"workloadRef": {"name": "mnist-2", "podGroup": "gang"}}),
            id="Kubernetes 1.35",
        ),
    ],
)
def test_pods_belong_to_the_group_of_their_attempt(backend: PodGroupBackend, expected: PodOverlay) -> None:
    assert backend.pod_overlay(a_gang_request(attempt=2), _WORKER) == expected


@pytest.mark.parametrize(
    ("gang", "completed_tasks", "minimum"),
    [
        pytest.param({}, 0, 3, id="all"),
        pytest.param({"minTasks": 2}, 0, 2, id="minTasks"),
        pytest.param({"minTasks": 2}, 1, 2, id="minTasks while enough tasks remain"),
        pytest.param({}, 2, 1, id="completed tasks do not count"),
        pytest.param({}, 3, 1, id="at least one"),
    ],
)
def test_the_minimum_of_a_gang(gang: Json, completed_tasks: int, minimum: int) -> None:
    assert a_gang_request(gang=gang, completed_tasks=completed_tasks).minimum == minimum


def test_min_resources_are_the_requests_of_as_many_tasks_as_start_together() -> None:
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    limited = a_pod_template()
    limited["spec"]["containers"][0]["resources"] = {
        "limits": {"memory": "1Gi", "nvidia.com/gpu": 1},
        "requests": {"memory": "1.5Gi"},
    }
    request = a_gang_request(
        a_role("ps", 1, pod=a_pod_requesting("100m", initContainers=[init])),
        a_role("worker", 3, pod=limited),
        gang={"minTasks": 3},
    )

    assert request.resources() == {"cpu": "2", "memory": str(3 * 2**30), "nvidia.com/gpu": "2"}
    assert volcano.group_spec(request)["minResources"] == request.resources()
    assert scheduler_plugins.group_spec(request)["minResources"] == request.resources()


def test_min_resources_are_in_thousandths_rounded_up_for_each_pod() -> None:
    assert a_gang_request(a_role(tasks=3, pod=a_pod_requesting("250m"))).resources() == {"cpu": "750m"}
    assert a_gang_request(a_role(tasks=3, pod=a_pod_requesting("0.0001"))).resources() == {
        "cpu": "3m"
    }  # each pod is rounded up


def test_the_group_of_volcano_has_the_queue_and_the_common_priority_class() -> None:
    pod = a_pod_template(priorityClassName="high")

    assert volcano.group_spec(a_gang_request(a_role(pod=pod), gang={"queue": "research"})) == {
        "minMember": 2,
        "queue": "research",
        "priorityClassName": "high",
    }
    assert "priorityClassName" not in volcano.group_spec(
        a_gang_request(a_role("ps", pod=pod), a_role("worker"))
    )


def test_the_group_of_scheduler_plugins_has_the_timeout() -> None:
    assert (
        scheduler_plugins.group_spec(a_gang_request(gang={"timeoutSeconds": 90}))["scheduleTimeoutSeconds"]
        == 90
    )


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_pods_are_created_once_volcano_has_admitted_the_group(phase: str) -> None:
    assert volcano.blocked_reason({"spec": {}, "status": {"phase": phase}}) == ""


def test_pods_are_not_created_before_volcano_has_admitted_the_group() -> None:
    pending = {
        "phase": "Pending",
        "conditions": [{"type": "Unschedulable", "message": "queue resource quota"}],
    }

    assert volcano.blocked_reason({"spec": {}}) == "waiting for Volcano to process it"
    assert volcano.blocked_reason({"spec": {"queue": "q"}, "status": {"phase": "Pending"}}) == (
        "waiting for Volcano to admit it to queue q"
    )
    assert volcano.blocked_reason({"spec": {}, "status": pending}) == (
        "waiting for Volcano to admit it to queue default: queue resource quota"
    )


def test_the_scheduler_name_of_one_role_applies_to_all() -> None:
    request = a_gang_request(a_role("ps"), a_role("worker", pod=a_pod_template(schedulerName="custom")))

    assert scheduler_plugins.pod_overlay(request, RoleName("ps")).defaults == {"schedulerName": "custom"}


@pytest.mark.parametrize(
    "backend", [volcano.BACKEND, scheduler_plugins.BACKEND, native.V1BETA1, native.V1ALPHA2, native.V1ALPHA1]
)
def test_different_scheduler_names_in_one_gang_are_rejected(backend: PodGroupBackend) -> None:
    request = a_gang_request(
        a_role("ps", pod=a_pod_template(schedulerName="a")),
        a_role("worker", pod=a_pod_template(schedulerName="b")),
    )

    with pytest.raises(InvalidObject, match=r"spec\.taskRoles: .* same schedulerName; found a and b"):
        backend.pod_overlay(request, _WORKER)


ONE_CPU = {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("fields", "cpu"),
    [
        pytest.param({}, "2", id="containers only"),
        pytest.param(
            {"initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": ONE_CPU}]},
            "4",
            id="a sidecar runs in addition to the containers",
        ),
        pytest.param(
            {"initContainers": [{"name": "init", "resources": ONE_CPU}]}, "2", id="an init container"
        ),
        pytest.param({"overhead": {"cpu": "250m"}}, "2500m", id="pod overhead"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, "6", id="pod-level resources"),
    ],
)
def test_min_resources_are_what_the_scheduler_reserves_for_the_pods(fields: Object, cpu: str) -> None:
    pod = {"spec": {"containers": [{"name": "main", "resources": ONE_CPU}], **fields}}
    request = a_gang_request(a_role(tasks=2, pod=pod))

    assert request.resources() == {"cpu": cpu}
    assert volcano.group_spec(request)["minResources"] == {"cpu": cpu}
    assert scheduler_plugins.group_spec(request)["minResources"] == {"cpu": cpu}
