"""Where Kubernetes' own scheduler knows of gangs, it places them: all of a gang or none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.versions import chosen
from tests.kubernetes.gangs import (
    BACKEND,
    PLACED,
    Ground,
    a_gang,
    a_hungry_pod,
    condition,
    ground,
    names,
    retrying,
    unused,
)
from tests.kubernetes.world import World

_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"


@pytest.fixture(scope="module")
def own(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    if (chosen().major, chosen().minor) != (1, 36):
        pytest.skip(f"Kubernetes {chosen()} does not have this API; 1.36 does")
    flags = {
        "APISERVER": (_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true"),
        "CONTROLLER_MANAGER": (_GATES,),
        "SCHEDULER": (_GATES,),
    }
    with ground(tmp_path_factory.mktemp("native"), programs, **flags) as made:
        made.launch()
        yield made


@pytest.fixture
def place(own: Ground) -> World:
    return own.world()


@pytest.fixture
def slot(place: World) -> str:
    """A resource that only the pods of this test ask for; no node has any yet."""
    return f"launcher.test/{place.namespace}"


def test_a_gang_that_does_not_fit_is_placed_not_at_all_and_then_whole(
    own: Ground, place: World, slot: str
) -> None:
    own.give("node-0", slot, 2)
    place.submit(a_gang(3, a_hungry_pod(slot)))
    place.until(lambda: _told_by_scheduler(place) or None, "the scheduler has looked at all of it")

    assert [pod["spec"].get("nodeName") for pod in place.pods().values()] == [None] * 3
    assert condition(place, PLACED)["status"] == "False"

    own.give("node-1", slot, 1)

    place.running(*names(3))
    (group,) = _groups(place)
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    pods = place.pods().values()
    assert [pod["spec"]["schedulingGroup"] for pod in pods] == [{"podGroupName": "mnist-0"}] * 3
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
    assert {pod["metadata"]["labels"][BACKEND] for pod in pods} == {"kubernetes"}


def test_a_group_is_one_attempts_and_goes_with_the_last(own: Ground, place: World, slot: str) -> None:
    own.give("node-0", slot, 2)
    place.submit(a_gang(2, a_hungry_pod(slot), retryPolicy={"maxRetryCount": 1}))
    place.running(*names(2))
    first = place.pods()["mnist-worker-0"]["metadata"]["uid"]

    place.end("mnist-worker-0", "failed")

    place.replaced("mnist-worker-0", first)
    place.until(lambda: [_name(group) for group in _groups(place)] == ["mnist-1"] or None, "one group")
    place.end("mnist-worker-0", "succeeded")
    place.end("mnist-worker-1", "succeeded")
    place.completed()
    place.until(lambda: not _groups(place) or None, "no group is left")
    assert len(place.pods()) == 2


def test_a_framework_takes_its_group_along(own: Ground, place: World, slot: str) -> None:
    place.submit(a_gang(2, a_hungry_pod(slot)))
    place.until(lambda: _groups(place) or None, "there is a group")

    place.kubectl("delete", "framework", "mnist", "--timeout=60s")

    place.until(lambda: not _groups(place) or None, "its group is gone")


def test_a_task_that_is_retried_joins_its_group(own: Ground, place: World, slot: str) -> None:
    own.give("node-0", slot, 2)
    place.submit(retrying(a_gang(2, a_hungry_pod(slot))))
    place.running(*names(2))
    failed = place.pods()["mnist-worker-1"]["metadata"]["uid"]

    place.end("mnist-worker-1", "failed")

    place.replaced("mnist-worker-1", failed)
    assert place.pods()["mnist-worker-1"]["spec"]["schedulingGroup"] == {"podGroupName": "mnist-0"}


def test_a_task_that_is_retried_when_others_are_over_is_not_held_up_by_them(
    own: Ground, place: World, slot: str
) -> None:
    own.give("node-0", slot, 2)
    place.submit(retrying(a_gang(2, a_hungry_pod(slot))))
    place.running(*names(2))
    place.end("mnist-worker-0", "succeeded")
    place.until(lambda: place.task(0)["state"] == "Completed" or None, "one task is over")
    failed = place.pods()["mnist-worker-1"]["metadata"]["uid"]

    place.end("mnist-worker-1", "failed")

    place.replaced("mnist-worker-1", failed)
    # The scheduler does not count pods that are over, and this group cannot be told that it is smaller.
    assert "schedulingGroup" not in place.pods()["mnist-worker-1"]["spec"]


def test_tasks_that_are_added_wait_for_nobody(own: Ground, place: World, slot: str) -> None:
    own.give("node-0", slot, 3)
    place.submit(a_gang(2, a_hungry_pod(slot)))
    place.running(*names(2))

    place.kubectl("scale", "framework", "mnist", "--replicas=3")

    place.running(*names(3))


def test_every_right_is_used_but_those_for_other_releases(own: Ground, place: World, slot: str) -> None:
    mark = own.plane.audit.mark()
    own.give("node-0", slot, 1)

    place.submit(a_gang(1, a_hungry_pod(slot, "succeeded")))
    place.completed()

    others = {f"{verb} scheduling.k8s.io/workloads" for verb in ("create", "get", "list", "delete")}
    others.add("patch scheduling.k8s.io/podgroups")
    place.until(lambda: unused(own, mark, {"scheduling.k8s.io"}) == others or None, "each right is used")


def _groups(place: World) -> list[Any]:
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{place.namespace}/podgroups"
    items: list[Any] = place.cluster.admin.get(path)["items"]
    return items


def _name(group: Any) -> str:
    return str(group["metadata"]["name"])


def _told_by_scheduler(place: World) -> bool:
    """Whether every pod of the gang has been told that it has no node."""
    conditions = [pod["status"].get("conditions") or () for pod in place.pods().values()]
    told = [
        any(one["type"] == "PodScheduled" and one["status"] == "False" for one in of) for of in conditions
    ]
    return len(told) == 3 and all(told)
