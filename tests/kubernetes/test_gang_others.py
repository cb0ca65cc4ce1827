"""
Volcano, scheduler-plugins and Kueue are given what they want, in the kinds that their own projects define.

Their programs do not run here: a test does what they would do where something waits for them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.build import NoGo
from tests.cluster.gangs import NotDownloaded, crds_of, define
from tests.kubernetes.gangs import BACKEND, Ground, a_gang, ground, names, owner_of, retrying, unused
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import PATIENCE

_VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
_PLUGINS = "/apis/scheduling.x-k8s.io/v1alpha1"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_QUEUE = "kueue.x-k8s.io/queue-name"
_GROUP = "kueue.x-k8s.io/pod-group-name"

#: The first of them waits for what is downloaded, once.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def own(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A cluster that has all three: which of them a gang goes to, its pods' scheduler and its queue decide."""
    modules = ("volcano.sh/volcano", "sigs.k8s.io/scheduler-plugins", "sigs.k8s.io/kueue")
    try:
        files = [file for module in modules for file in crds_of(module)]
    except (NoGo, NotDownloaded) as why:
        pytest.skip(str(why))
    with ground(tmp_path_factory.mktemp("others"), programs) as made:
        define(made.plane, files)
        made.launch()
        yield made


@pytest.fixture
def place(own: Ground) -> World:
    return own.world()


# Volcano.


def test_volcano_gets_a_group_first_and_pods_when_it_has_let_it_in(place: World) -> None:
    pod = a_task_pod(schedulerName="volcano", priorityClassName="system-node-critical")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    place.submit(a_gang(3, pod, gang={"minTasks": 2, "queue": "research"}))
    (group,) = place.until(lambda: _objects(place, _VOLCANO, "podgroups") or None, "there is a group")
    place.until(lambda: "has not looked" in " ".join(place.events("FailedCreate")) or None, "it waits")
    assert place.pods() == {}

    _let_in(place, "mnist-0", "Pending")
    place.until(
        lambda: "into queue research" in " ".join(place.events("FailedCreate")) or None, "it waits on"
    )
    assert place.pods() == {}

    _let_in(place, "mnist-0", "Inqueue")

    pods = place.until(lambda: (len(place.pods()) == 3 and place.pods()) or None, "its pods are there")
    assert group["metadata"]["name"] == "mnist-0"
    assert group["spec"] == {
        "minMember": 2,
        "queue": "research",
        "priorityClassName": "system-node-critical",
        "minResources": {"cpu": "1", "memory": str(2 * 2**30)},
    }
    for one in pods.values():
        assert one["spec"]["schedulerName"] == "volcano"
        assert one["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "mnist-0"
        assert one["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"
        assert one["metadata"]["labels"][BACKEND] == "volcano"


def test_volcanos_group_is_one_attempts_and_goes_with_the_last(place: World) -> None:
    place.submit(a_gang(2, a_task_pod(), retryPolicy={"maxRetryCount": 1}))
    _begin(place, "mnist-0")
    first = place.pods()["mnist-worker-0"]["metadata"]["uid"]

    place.end("mnist-worker-0", "failed")

    place.until(lambda: _names(place, _VOLCANO) == ["mnist-1"] or None, "the next attempt has its own")
    _begin(place, "mnist-1")
    assert place.pods()["mnist-worker-0"]["metadata"]["uid"] != first
    for pod in names(2):
        place.end(pod, "succeeded")
    place.completed()
    place.until(lambda: not _names(place, _VOLCANO) or None, "no group is left")
    assert len(place.pods()) == 2


def test_a_task_that_is_retried_joins_volcanos_group_as_it_is(place: World) -> None:
    place.submit(retrying(a_gang(2, a_task_pod())))
    _begin(place, "mnist-0")
    assert {pod["spec"]["schedulerName"] for pod in place.pods().values()} == {"volcano"}
    (group,) = _objects(place, _VOLCANO, "podgroups")
    failed = place.pods()["mnist-worker-1"]["metadata"]["uid"]

    place.end("mnist-worker-1", "failed")

    again = place.until(lambda: _another(place, "mnist-worker-1", failed), "it is there again")
    assert again["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "mnist-0"
    (same,) = _objects(place, _VOLCANO, "podgroups")
    assert (same["metadata"]["uid"], same["spec"]) == (group["metadata"]["uid"], group["spec"])


def test_a_gang_that_is_made_smaller_needs_fewer(place: World) -> None:
    place.submit(a_gang(3, a_task_pod()))
    place.until(lambda: _names(place, _VOLCANO) == ["mnist-0"] or None, "there is a group")
    _let_in(place, "mnist-0", "Inqueue")
    place.until(lambda: len(place.pods()) == 3 or None, "its pods are there")

    place.kubectl("scale", "framework", "mnist", "--replicas=2")

    def least() -> int:
        return int(_objects(place, _VOLCANO, "podgroups")[0]["spec"]["minMember"])

    place.until(lambda: least() == 2 or None, "the group is smaller")


def test_a_framework_that_is_deleted_takes_its_group_along(place: World) -> None:
    place.submit(a_gang(2, a_task_pod()))
    (group,) = place.until(lambda: _objects(place, _VOLCANO, "podgroups") or None, "there is a group")
    assert owner_of(group) == ("Framework", "mnist", place.framework()["metadata"]["uid"])

    place.kubectl("delete", "framework", "mnist", "--cascade=background", "--timeout=60s")

    # It looks for new kinds every half a minute.
    place.until(
        lambda: not _names(place, _VOLCANO) or None, "the collector has taken it", within=PATIENCE * 2
    )


def test_a_group_of_somebody_else_is_left_alone_and_told_of(place: World) -> None:
    other = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "mnist-0"},
        "spec": {"minMember": 7},
    }
    place.cluster.admin.post(f"{_VOLCANO}/namespaces/{place.namespace}/podgroups", other)

    place.submit(a_gang(2, a_task_pod()))

    told = place.until(lambda: place.events("FailedCreate") or None, "it is told")
    assert "PodGroup mnist-0 (podgroups.scheduling.volcano.sh) is there already" in told[0]
    assert _objects(place, _VOLCANO, "podgroups")[0]["spec"] == {"minMember": 7}
    assert place.pods() == {}


# scheduler-plugins.


def test_scheduler_plugins_get_a_group_and_its_label_on_every_pod(place: World) -> None:
    pod = a_task_pod(schedulerName="coscheduler")
    place.submit(a_gang(2, pod, gang={"timeoutSeconds": 90}))

    pods = place.until(lambda: (len(place.pods()) == 2 and place.pods()) or None, "its pods are there")

    (group,) = _objects(place, _PLUGINS, "podgroups")
    assert (group["metadata"]["name"], group["spec"]) == (
        "mnist-0",
        {"minMember": 2, "scheduleTimeoutSeconds": 90},
    )
    assert owner_of(group) == ("Framework", "mnist", place.framework()["metadata"]["uid"])
    for one in pods.values():
        assert one["spec"]["schedulerName"] == "coscheduler"
        assert one["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist-0"
    assert _names(place, _VOLCANO) == []


def test_a_group_of_scheduler_plugins_is_told_of_tasks_that_are_over_and_goes_at_the_end(
    place: World,
) -> None:
    place.submit(retrying(a_gang(2, a_task_pod(schedulerName="coscheduler"))))
    place.until(lambda: len(place.pods()) == 2 or None, "its pods are there")
    _bind(place)
    place.running(*names(2))
    place.end("mnist-worker-0", "succeeded")
    place.until(lambda: place.task(0)["state"] == "Completed" or None, "one is over")
    failed = place.pods()["mnist-worker-1"]["metadata"]["uid"]

    place.end("mnist-worker-1", "failed")

    place.until(lambda: _another(place, "mnist-worker-1", failed), "the other is there again")
    assert _objects(place, _PLUGINS, "podgroups")[0]["spec"] == {"minMember": 1}
    _bind(place)
    place.replaced("mnist-worker-1", failed)
    place.end("mnist-worker-1", "succeeded")
    place.completed()
    place.until(lambda: not _names(place, _PLUGINS) or None, "no group is left")


# Kueue.


def test_kueue_gets_a_group_of_pods_in_the_queue_that_is_named(place: World) -> None:
    _queue(place, "research")

    place.submit(a_gang(3, a_task_pod(), gang={"queue": "research"}))

    place.running(*names(3))
    for pod in place.pods().values():
        labels = pod["metadata"]["labels"]
        assert (labels[_QUEUE], labels[_GROUP], labels[BACKEND]) == ("research", "mnist-0", "kueue")
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
    assert _names(place, _VOLCANO) == []


def test_the_queue_may_be_named_by_a_label_of_the_framework(place: World) -> None:
    _queue(place, "research")
    framework = a_gang(1, a_task_pod())
    framework["metadata"]["labels"] = {_QUEUE: "research"}

    place.submit(framework)

    place.running("mnist-worker-0")
    assert place.pods()["mnist-worker-0"]["metadata"]["labels"][_QUEUE] == "research"


def test_a_queue_that_is_not_there_is_told_of_and_nothing_is_created(place: World) -> None:
    place.submit(a_gang(1, a_task_pod(), gang={"queue": "nowhere"}))

    told = place.until(lambda: place.events("FailedCreate") or None, "it is told")

    assert f'"nowhere": namespace {place.namespace} has no LocalQueue of that name' in told[0]
    assert place.pods() == {}


def test_each_attempt_is_a_group_of_its_own_and_the_last_ones_workload_is_ended(place: World) -> None:
    _queue(place, "research")
    gang = a_gang(2, a_task_pod(), gang={"queue": "research"}, retryPolicy={"maxRetryCount": 1})
    # One task's success is enough: Kueue, which counts all of them, would wait for ever.
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    gang["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = policy
    place.submit(gang)
    place.running(*names(2))
    first = place.pods()["mnist-worker-0"]["metadata"]["uid"]

    place.end("mnist-worker-1", "failed")
    place.replaced("mnist-worker-0", first)
    place.running(*names(2))

    groups = {pod["metadata"]["labels"][_GROUP] for pod in place.pods().values()}
    assert groups == {"mnist-1"}
    _workload(place, "mnist-1")
    _workload(place, "of-somebody", owned=False)
    place.end("mnist-worker-0", "succeeded")
    place.completed()
    place.until(
        lambda: _names(place, _KUEUE, "workloads") == ["of-somebody"] or None,
        "its workload is gone, and no other",
    )
    last = place.pods()["mnist-worker-0"]["metadata"]["annotations"]
    assert last["kueue.x-k8s.io/retriable-in-group"] == "false"


def test_tasks_that_are_added_to_a_group_in_kueue_queue_for_themselves(place: World) -> None:
    _queue(place, "research")
    place.submit(a_gang(2, a_task_pod(), gang={"queue": "research"}))
    place.running(*names(2))

    place.kubectl("scale", "framework", "mnist", "--replicas=3")

    place.running(*names(3))
    added = place.pods()["mnist-worker-2"]["metadata"]["labels"]
    # Kueue deletes what a group has too much.
    assert (added[_QUEUE], _GROUP in added) == ("research", False)


# All of them.


def test_every_right_on_their_kinds_is_used(own: Ground, place: World) -> None:
    mark = own.plane.audit.mark()
    _queue(place, "research")
    place.submit(a_gang(2, a_task_pod(), name="volcanic"))
    place.submit(a_gang(2, a_task_pod(schedulerName="coscheduler"), name="planned"))
    place.submit(a_gang(1, a_task_pod(), name="queued", gang={"queue": "research"}))
    place.until(lambda: _names(place, _VOLCANO) == ["volcanic-0"] or None, "there is a group")
    _let_in(place, "volcanic-0", "Inqueue")
    place.until(lambda: len(place.pods()) == 5 or None, "all pods are there")
    _workload(place, "queued-0")

    for name in ("volcanic", "planned"):
        place.kubectl("scale", "framework", name, "--replicas=1")
    place.until(lambda: len(place.pods()) == 3 or None, "two are gone")
    _bind(place)
    place.running("planned-worker-0", "queued-worker-0", "volcanic-worker-0")
    for pod in place.pods():
        place.end(pod, "succeeded")
    for name in ("volcanic", "planned", "queued"):
        place.completed(name)

    theirs = {"scheduling.volcano.sh", "scheduling.x-k8s.io", "kueue.x-k8s.io"}
    place.until(lambda: unused(own, mark, theirs) == set() or None, "each right is used")


def _objects(place: World, api: str, plural: str) -> list[Any]:
    items: list[Any] = place.cluster.admin.get(f"{api}/namespaces/{place.namespace}/{plural}")["items"]
    return items


def _names(place: World, api: str, plural: str = "podgroups") -> list[str]:
    return [one["metadata"]["name"] for one in _objects(place, api, plural)]


def _let_in(place: World, group: str, phase: str) -> None:
    """As Volcano says it; its groups have no status of their own to the API server."""
    path = f"{_VOLCANO}/namespaces/{place.namespace}/podgroups/{group}"
    place.cluster.admin.patch(path, {"status": {"phase": phase}})


def _begin(place: World, group: str) -> None:
    """As Volcano lets a gang of two in and places it."""
    place.until(lambda: group in _names(place, _VOLCANO) or None, f"there is {group}")
    _let_in(place, group, "Inqueue")
    place.until(lambda: len(place.pods()) == 2 or None, "its pods are there")
    _bind(place)
    place.running(*names(2))


def _bind(place: World) -> None:
    """As a scheduler does, with every pod that has no node."""
    for name, pod in place.pods().items():
        if not pod["spec"].get("nodeName"):
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
            place.cluster.admin.post(place.path("pods", f"{name}/binding"), binding)


def _another(place: World, name: str, uid: str) -> Any:
    pod = place.pods().get(name)
    return pod if pod is not None and pod["metadata"]["uid"] != uid else None


def _queue(place: World, name: str) -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": "all"},
    }
    place.cluster.admin.post(f"{_KUEUE}/namespaces/{place.namespace}/localqueues", queue)


def _workload(place: World, name: str, *, owned: bool = True) -> None:
    """As Kueue makes one for a group of pods."""
    pods = [pod for pod in place.pods().values() if pod["metadata"]["labels"].get(_GROUP) == name]
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        for pod in pods
    ]
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "ownerReferences": owners if owned else []},
        "spec": {
            "queueName": "research",
            "podSets": [{"name": "main", "count": 2, "template": a_task_pod()}],
        },
    }
    place.cluster.admin.post(f"{_KUEUE}/namespaces/{place.namespace}/workloads", workload)
