"""Each scheduler that knows of gangs gets its own kind of group, and its own marks on pods."""

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.pod_groups import PodGroupBackend
from launcher.core.errors import InvalidObject
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.interface import Object
from tests.controller.gang.builders import asking, wanted
from tests.core.manifests import Json, a_pod, a_role

_WORKER = RoleName("worker")


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        pytest.param(volcano.SHAPE, {"minMember": 3}, id="Volcano"),
        pytest.param(scheduler_plugins.SHAPE, {"minMember": 3}, id="scheduler-plugins"),
        pytest.param(native.BETA, {"schedulingPolicy": {"gang": {"minCount": 3}}}, id="Kubernetes 1.37"),
        pytest.param(native.SECOND, {"schedulingPolicy": {"gang": {"minCount": 3}}}, id="Kubernetes 1.36"),
        pytest.param(
            native.FIRST,
            {"podGroups": [{"name": "gang", "policy": {"gang": {"minCount": 3}}}]},
            id="Kubernetes 1.35",
        ),
    ],
)
def test_the_group_is_of_all_tasks_but_those_in_the_background(shape: PodGroupBackend, spec: Object) -> None:
    gang = wanted(a_role("ps", 1), a_role("worker", 2), a_role("board", 5, background=True))

    assert shape.spec(gang) == spec
    assert shape.min_member({"spec": spec}) == 3


@pytest.mark.parametrize(
    ("shape", "extras"),
    [
        pytest.param(
            volcano.SHAPE,
            PodOverlay(
                annotations={"scheduling.k8s.io/group-name": "mnist-2", "volcano.sh/task-spec": "worker"},
                defaults={"schedulerName": "volcano"},
            ),
            id="Volcano",
        ),
        pytest.param(
            scheduler_plugins.SHAPE,
            PodOverlay(
                labels={"scheduling.x-k8s.io/pod-group": "mnist-2"},
                defaults={"schedulerName": "scheduler-plugins-scheduler"},
            ),
            id="scheduler-plugins",
        ),
        pytest.param(
            native.BETA,
            PodOverlay(spec={"schedulingGroup": {"podGroupName": "mnist-2"}}),
            id="Kubernetes 1.37",
        ),
        pytest.param(
            native.SECOND,
            PodOverlay(spec={"schedulingGroup": {"podGroupName": "mnist-2"}}),
            id="Kubernetes 1.36",
        ),
        pytest.param(
            native.FIRST,
            PodOverlay(spec={"workloadRef": {"name": "mnist-2", "podGroup": "gang"}}),
            id="Kubernetes 1.35",
        ),
    ],
)
def test_pods_belong_to_the_group_of_their_attempt(shape: PodGroupBackend, extras: PodOverlay) -> None:
    assert shape.extras(wanted(attempt=2), _WORKER) == extras


@pytest.mark.parametrize(
    ("gang", "ended", "least"),
    [
        pytest.param({}, 0, 3, id="all"),
        pytest.param({"minTasks": 2}, 0, 2, id="as many as are asked for"),
        pytest.param({"minTasks": 2}, 1, 2, id="as long as so many are not over"),
        pytest.param({}, 2, 1, id="of tasks that are over there is none to be placed"),
        pytest.param({}, 3, 1, id="never none"),
    ],
)
def test_how_many_are_placed_together(gang: Json, ended: int, least: int) -> None:
    assert wanted(gang=gang, ended=ended).least == least


def test_what_is_asked_for_together_is_told() -> None:
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    limited = a_pod()
    limited["spec"]["containers"][0]["resources"] = {
        "limits": {"memory": "1Gi", "nvidia.com/gpu": 1},
        "requests": {"memory": "1.5Gi"},
    }
    gang = wanted(
        a_role("ps", 1, pod=asking("100m", initContainers=[init])),
        a_role("worker", 3, pod=limited),
        gang={"minTasks": 3},
    )

    assert gang.resources() == {"cpu": "2", "memory": str(3 * 2**30), "nvidia.com/gpu": "2"}
    assert volcano.group_spec(gang)["minResources"] == gang.resources()
    assert scheduler_plugins.group_spec(gang)["minResources"] == gang.resources()


def test_a_fraction_is_told_in_thousandths_rounded_up() -> None:
    assert wanted(a_role(tasks=3, pod=asking("250m"))).resources() == {"cpu": "750m"}
    assert wanted(a_role(tasks=3, pod=asking("0.0001"))).resources() == {"cpu": "1m"}


def test_volcano_is_told_the_queue_and_the_priority_that_all_share() -> None:
    pod = a_pod(priorityClassName="high")

    assert volcano.group_spec(wanted(a_role(pod=pod), gang={"queue": "research"})) == {
        "minMember": 2,
        "queue": "research",
        "priorityClassName": "high",
    }
    assert "priorityClassName" not in volcano.group_spec(wanted(a_role("ps", pod=pod), a_role("worker")))


def test_scheduler_plugins_are_told_how_long_it_may_take() -> None:
    assert scheduler_plugins.group_spec(wanted(gang={"timeoutSeconds": 90}))["scheduleTimeoutSeconds"] == 90


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_volcano_wants_pods_once_it_has_let_the_group_in(phase: str) -> None:
    assert volcano.holds({"spec": {}, "status": {"phase": phase}}) == ""


def test_volcano_wants_no_pods_before() -> None:
    told = {"phase": "Pending", "conditions": [{"type": "Unschedulable", "message": "queue resource quota"}]}

    assert volcano.holds({"spec": {}}) == "Volcano has not looked at it yet"
    assert volcano.holds({"spec": {"queue": "q"}, "status": {"phase": "Pending"}}) == (
        "Volcano has not let it into queue q yet"
    )
    assert volcano.holds({"spec": {}, "status": told}) == (
        "Volcano has not let it into queue default yet: queue resource quota"
    )


def test_one_scheduler_named_is_that_of_all() -> None:
    gang = wanted(a_role("ps"), a_role("worker", pod=a_pod(schedulerName="mine")))

    assert scheduler_plugins.extras(gang, RoleName("ps")).defaults == {"schedulerName": "mine"}


@pytest.mark.parametrize(
    "shape", [volcano.SHAPE, scheduler_plugins.SHAPE, native.BETA, native.SECOND, native.FIRST]
)
def test_two_schedulers_cannot_place_one_gang(shape: PodGroupBackend) -> None:
    gang = wanted(a_role("ps", pod=a_pod(schedulerName="a")), a_role("worker", pod=a_pod(schedulerName="b")))

    with pytest.raises(InvalidObject, match=r"spec\.taskRoles: .* one scheduler, and these name a and b"):
        shape.extras(gang, _WORKER)
