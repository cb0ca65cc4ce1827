"""
Gangs with the CRDs of Volcano, scheduler-plugins and Kueue.

Their programs do not run here; the tests write what these would write.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.build import NoGo
from tests.cluster.gangs import NotDownloaded, crds_of, define
from tests.eventually import TIMEOUT_SECONDS
from tests.kubernetes.gang_test_bed import (
    BACKEND,
    GangTestBed,
    a_gang,
    controller_of,
    gang_test_bed,
    unused_permissions,
    with_task_retry,
    worker_names,
)
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod

_VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
_PLUGINS = "/apis/scheduling.x-k8s.io/v1alpha1"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_QUEUE = "kueue.x-k8s.io/queue-name"
_GROUP = "kueue.x-k8s.io/pod-group-name"

#: The first test may wait for a download.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def bed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangTestBed]:
    """A control plane with all three; schedulerName and queue of a gang select one of them."""
    modules = ("volcano.sh/volcano", "sigs.k8s.io/scheduler-plugins", "sigs.k8s.io/kueue")
    try:
        files = [file for module in modules for file in crds_of(module)]
    except (NoGo, NotDownloaded) as error:
        pytest.skip(str(error))
    with gang_test_bed(tmp_path_factory.mktemp("others"), programs) as test_bed:
        define(test_bed.plane, files)
        test_bed.launch()
        yield test_bed


@pytest.fixture
def ns(bed: GangTestBed) -> NamespaceClient:
    return bed.new_namespace()


# Volcano.


def test_volcano_gets_pods_after_its_group_is_admitted(ns: NamespaceClient) -> None:
    template = a_task_pod(schedulerName="volcano", priorityClassName="system-node-critical")
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    ns.submit(a_gang(3, template, gang={"minTasks": 2, "queue": "research"}))
    (group,) = ns.until(lambda: _objects(ns, _VOLCANO, "podgroups") or None, "the group exists")
    ns.until(
        lambda: "waiting for Volcano" in " ".join(ns.events("FailedCreate")) or None, "it waits for Volcano"
    )
    assert ns.pods() == {}

    _set_phase(ns, "mnist-0", "Pending")
    ns.until(
        lambda: "to queue research" in " ".join(ns.events("FailedCreate")) or None, "it waits for the queue"
    )
    assert ns.pods() == {}

    _set_phase(ns, "mnist-0", "Inqueue")

    pods = ns.until(lambda: (len(ns.pods()) == 3 and ns.pods()) or None, "its pods exist")
    assert group["metadata"]["name"] == "mnist-0"
    assert group["spec"] == {
        "minMember": 2,
        "queue": "research",
        "priorityClassName": "system-node-critical",
        "minResources": {"cpu": "1", "memory": str(2 * 2**30)},
    }
    for pod in pods.values():
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "mnist-0"
        assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"
        assert pod["metadata"]["labels"][BACKEND] == "volcano"


def test_a_volcano_group_belongs_to_one_attempt(ns: NamespaceClient) -> None:
    ns.submit(a_gang(2, a_task_pod(), retryPolicy={"maxRetryCount": 1}))
    _start_volcano_gang(ns, "mnist-0")
    first = ns.pods()["mnist-worker-0"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-0", "failed")

    ns.until(lambda: _names(ns, _VOLCANO) == ["mnist-1"] or None, "the next attempt has its own group")
    _start_volcano_gang(ns, "mnist-1")
    assert ns.pods()["mnist-worker-0"]["metadata"]["uid"] != first
    for pod in worker_names(2):
        ns.end_pod(pod, "succeeded")
    ns.wait_completed()
    ns.until(lambda: not _names(ns, _VOLCANO) or None, "no group is left")
    assert len(ns.pods()) == 2


def test_a_retried_task_joins_its_volcano_group(ns: NamespaceClient) -> None:
    ns.submit(with_task_retry(a_gang(2, a_task_pod())))
    _start_volcano_gang(ns, "mnist-0")
    assert {pod["spec"]["schedulerName"] for pod in ns.pods().values()} == {"volcano"}
    (group,) = _objects(ns, _VOLCANO, "podgroups")
    failed = ns.pods()["mnist-worker-1"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")

    retried = ns.until(lambda: _replacement(ns, "mnist-worker-1", failed), "the pod is recreated")
    assert retried["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "mnist-0"
    (same,) = _objects(ns, _VOLCANO, "podgroups")
    assert (same["metadata"]["uid"], same["spec"]) == (group["metadata"]["uid"], group["spec"])


def test_a_gang_scaled_down_has_a_lower_minimum(ns: NamespaceClient) -> None:
    ns.submit(a_gang(3, a_task_pod()))
    ns.until(lambda: _names(ns, _VOLCANO) == ["mnist-0"] or None, "the group exists")
    _set_phase(ns, "mnist-0", "Inqueue")
    ns.until(lambda: len(ns.pods()) == 3 or None, "its pods exist")

    ns.kubectl("scale", "framework", "mnist", "--replicas=2")

    def min_member() -> int:
        return int(_objects(ns, _VOLCANO, "podgroups")[0]["spec"]["minMember"])

    ns.until(lambda: min_member() == 2 or None, "the minimum is updated")


def test_a_deleted_framework_deletes_its_volcano_group(ns: NamespaceClient) -> None:
    ns.submit(a_gang(2, a_task_pod()))
    (group,) = ns.until(lambda: _objects(ns, _VOLCANO, "podgroups") or None, "the group exists")
    assert controller_of(group) == ("Framework", "mnist", ns.framework()["metadata"]["uid"])

    ns.kubectl("delete", "framework", "mnist", "--cascade=background", "--timeout=60s")

    # The garbage collector discovers new kinds every half minute.
    ns.until(lambda: not _names(ns, _VOLCANO) or None, "the group is deleted", within=TIMEOUT_SECONDS * 2)


def test_a_group_of_another_owner_is_reported_and_not_changed(ns: NamespaceClient) -> None:
    other = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "mnist-0"},
        "spec": {"minMember": 7},
    }
    ns.cluster.admin.post(f"{_VOLCANO}/namespaces/{ns.namespace}/podgroups", other)

    ns.submit(a_gang(2, a_task_pod()))

    message = ns.until(lambda: ns.events("FailedCreate") or None, "the event is recorded")
    assert "PodGroup mnist-0 (podgroups.scheduling.volcano.sh) already exists" in message[0]
    assert _objects(ns, _VOLCANO, "podgroups")[0]["spec"] == {"minMember": 7}
    assert ns.pods() == {}


# scheduler-plugins.


def test_scheduler_plugins_get_a_group_and_its_label_on_every_pod(ns: NamespaceClient) -> None:
    ns.submit(a_gang(2, a_task_pod(schedulerName="coscheduler"), gang={"timeoutSeconds": 90}))

    pods = ns.until(lambda: (len(ns.pods()) == 2 and ns.pods()) or None, "its pods exist")

    (group,) = _objects(ns, _PLUGINS, "podgroups")
    assert (group["metadata"]["name"], group["spec"]) == (
        "mnist-0",
        {"minMember": 2, "scheduleTimeoutSeconds": 90},
    )
    assert controller_of(group) == ("Framework", "mnist", ns.framework()["metadata"]["uid"])
    for pod in pods.values():
        assert pod["spec"]["schedulerName"] == "coscheduler"
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist-0"
    assert _names(ns, _VOLCANO) == []


def test_a_group_of_scheduler_plugins_is_updated_and_deleted(
    ns: NamespaceClient,
) -> None:
    ns.submit(with_task_retry(a_gang(2, a_task_pod(schedulerName="coscheduler"))))
    ns.until(lambda: len(ns.pods()) == 2 or None, "its pods exist")
    _bind_pending_pods(ns)
    ns.wait_running(*worker_names(2))
    ns.end_pod("mnist-worker-0", "succeeded")
    ns.until(lambda: ns.task(0)["state"] == "Completed" or None, "one task is completed")
    failed = ns.pods()["mnist-worker-1"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")

    ns.until(lambda: _replacement(ns, "mnist-worker-1", failed), "the pod is recreated")
    assert _objects(ns, _PLUGINS, "podgroups")[0]["spec"] == {"minMember": 1}
    _bind_pending_pods(ns)
    ns.wait_replaced("mnist-worker-1", failed)
    ns.end_pod("mnist-worker-1", "succeeded")
    ns.wait_completed()
    ns.until(lambda: not _names(ns, _PLUGINS) or None, "no group is left")


# Kueue.


def test_kueue_gets_a_pod_group_in_the_configured_queue(ns: NamespaceClient) -> None:
    _create_local_queue(ns, "research")

    ns.submit(a_gang(3, a_task_pod(), gang={"queue": "research"}))

    ns.wait_running(*worker_names(3))
    for pod in ns.pods().values():
        labels = pod["metadata"]["labels"]
        assert (labels[_QUEUE], labels[_GROUP], labels[BACKEND]) == ("research", "mnist-0", "kueue")
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
    assert _names(ns, _VOLCANO) == []


def test_the_queue_may_be_set_by_a_label_of_the_framework(ns: NamespaceClient) -> None:
    _create_local_queue(ns, "research")
    framework = a_gang(1, a_task_pod())
    framework["metadata"]["labels"] = {_QUEUE: "research"}

    ns.submit(framework)

    ns.wait_running("mnist-worker-0")
    assert ns.pods()["mnist-worker-0"]["metadata"]["labels"][_QUEUE] == "research"


def test_a_missing_queue_is_reported_and_nothing_is_created(ns: NamespaceClient) -> None:
    ns.submit(a_gang(1, a_task_pod(), gang={"queue": "missing"}))

    message = ns.until(lambda: ns.events("FailedCreate") or None, "the event is recorded")

    assert f'"missing": namespace {ns.namespace} has no LocalQueue of that name' in message[0]
    assert ns.pods() == {}


def test_each_attempt_has_its_own_group_and_workloads_finish(ns: NamespaceClient) -> None:
    _create_local_queue(ns, "research")
    gang = a_gang(2, a_task_pod(), gang={"queue": "research"}, retryPolicy={"maxRetryCount": 1})
    # One success completes the Framework; Kueue would wait for all pods.
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    gang["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = policy
    ns.submit(gang)
    ns.wait_running(*worker_names(2))
    first = ns.pods()["mnist-worker-0"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")
    ns.wait_replaced("mnist-worker-0", first)
    ns.wait_running(*worker_names(2))

    groups = {pod["metadata"]["labels"][_GROUP] for pod in ns.pods().values()}
    assert groups == {"mnist-1"}
    _create_workload(ns, "mnist-1")
    _create_workload(ns, "unowned", owned=False)
    ns.end_pod("mnist-worker-0", "succeeded")
    ns.wait_completed()
    ns.until(
        lambda: _names(ns, _KUEUE, "workloads") == ["unowned"] or None,
        "only its workload is deleted",
    )
    last = ns.pods()["mnist-worker-0"]["metadata"]["annotations"]
    assert last["kueue.x-k8s.io/retriable-in-group"] == "false"


def test_tasks_added_to_a_kueue_group_are_queued_individually(ns: NamespaceClient) -> None:
    _create_local_queue(ns, "research")
    ns.submit(a_gang(2, a_task_pod(), gang={"queue": "research"}))
    ns.wait_running(*worker_names(2))

    ns.kubectl("scale", "framework", "mnist", "--replicas=3")

    ns.wait_running(*worker_names(3))
    added = ns.pods()["mnist-worker-2"]["metadata"]["labels"]
    # Kueue deletes excess pods of a group.
    assert (added[_QUEUE], _GROUP in added) == ("research", False)


# All backends.


def test_every_permission_on_the_kinds_of_the_backends_is_used(bed: GangTestBed, ns: NamespaceClient) -> None:
    mark = bed.plane.audit.mark()
    _create_local_queue(ns, "research")
    ns.submit(a_gang(2, a_task_pod(), name="volcanic"))
    ns.submit(a_gang(2, a_task_pod(schedulerName="coscheduler"), name="planned"))
    ns.submit(a_gang(1, a_task_pod(), name="queued", gang={"queue": "research"}))
    ns.until(lambda: _names(ns, _VOLCANO) == ["volcanic-0"] or None, "the group exists")
    _set_phase(ns, "volcanic-0", "Inqueue")
    ns.until(lambda: len(ns.pods()) == 5 or None, "all pods exist")
    _create_workload(ns, "queued-0")

    for name in ("volcanic", "planned"):
        ns.kubectl("scale", "framework", name, "--replicas=1")
    ns.until(lambda: len(ns.pods()) == 3 or None, "two pods are deleted")
    _bind_pending_pods(ns)
    ns.wait_running("planned-worker-0", "queued-worker-0", "volcanic-worker-0")
    for pod in ns.pods():
        ns.end_pod(pod, "succeeded")
    for name in ("volcanic", "planned", "queued"):
        ns.wait_completed(name)

    groups = {"scheduling.volcano.sh", "scheduling.x-k8s.io", "kueue.x-k8s.io"}
    ns.until(lambda: unused_permissions(bed, mark, groups) == set() or None, "each permission is used")


def _objects(ns: NamespaceClient, api: str, plural: str) -> list[Any]:
    items: list[Any] = ns.cluster.admin.get(f"{api}/namespaces/{ns.namespace}/{plural}")["items"]
    return items


def _names(ns: NamespaceClient, api: str, plural: str = "podgroups") -> list[str]:
    return [pod["metadata"]["name"] for pod in _objects(ns, api, plural)]


def _set_phase(ns: NamespaceClient, group: str, phase: str) -> None:
    """Writes the phase of a Volcano group, whose CRD has no status subresource."""
    path = f"{_VOLCANO}/namespaces/{ns.namespace}/podgroups/{group}"
    ns.cluster.admin.patch(path, {"status": {"phase": phase}})


def _start_volcano_gang(ns: NamespaceClient, group: str) -> None:
    """Admits and binds a gang of two pods, as Volcano does."""
    ns.until(lambda: group in _names(ns, _VOLCANO) or None, f"{group} exists")
    _set_phase(ns, group, "Inqueue")
    ns.until(lambda: len(ns.pods()) == 2 or None, "its pods exist")
    _bind_pending_pods(ns)
    ns.wait_running(*worker_names(2))


def _bind_pending_pods(ns: NamespaceClient) -> None:
    """Binds every pod without a node, as a scheduler does."""
    for name, pod in ns.pods().items():
        if not pod["spec"].get("nodeName"):
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
            ns.cluster.admin.post(ns.path("pods", f"{name}/binding"), binding)


def _replacement(ns: NamespaceClient, name: str, uid: str) -> Any:
    pod = ns.pods().get(name)
    return pod if pod is not None and pod["metadata"]["uid"] != uid else None


def _create_local_queue(ns: NamespaceClient, name: str) -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": "all"},
    }
    ns.cluster.admin.post(f"{_KUEUE}/namespaces/{ns.namespace}/localqueues", queue)


def _create_workload(ns: NamespaceClient, name: str, *, owned: bool = True) -> None:
    """Creates the Workload of a pod group, as Kueue does."""
    pods = [pod for pod in ns.pods().values() if pod["metadata"]["labels"].get(_GROUP) == name]
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
    ns.cluster.admin.post(f"{_KUEUE}/namespaces/{ns.namespace}/workloads", workload)
