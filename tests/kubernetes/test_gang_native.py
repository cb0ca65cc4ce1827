"""Gangs with the gang scheduling of kube-scheduler, which schedules all pods of a gang or none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.versions import chosen
from tests.kubernetes.gang_test_bed import (
    BACKEND,
    GANG_PLACED,
    GangTestBed,
    a_gang,
    a_pod_requesting,
    condition,
    gang_test_bed,
    unused_permissions,
    with_task_retry,
    worker_names,
)
from tests.kubernetes.namespace_client import NamespaceClient

_GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"


@pytest.fixture(scope="module")
def bed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangTestBed]:
    if (chosen().major, chosen().minor) != (1, 36):
        pytest.skip(f"Kubernetes {chosen()} does not have this API; 1.36 does")
    flags = {
        "APISERVER": (_GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true"),
        "CONTROLLER_MANAGER": (_GATES,),
        "SCHEDULER": (_GATES,),
    }
    with gang_test_bed(tmp_path_factory.mktemp("native"), programs, **flags) as test_bed:
        test_bed.launch()
        yield test_bed


@pytest.fixture
def ns(bed: GangTestBed) -> NamespaceClient:
    return bed.new_namespace()


@pytest.fixture
def resource(ns: NamespaceClient) -> str:
    """A resource that only the pods of this test request; no node has it at first."""
    return f"launcher.test/{ns.namespace}"


def test_a_gang_is_scheduled_as_a_whole_or_not_at_all(
    bed: GangTestBed, ns: NamespaceClient, resource: str
) -> None:
    bed.set_capacity("node-0", resource, 2)
    ns.submit(a_gang(3, a_pod_requesting(resource)))
    ns.until(lambda: _is_unschedulable(ns) or None, "the gang is unschedulable")

    assert [pod["spec"].get("nodeName") for pod in ns.pods().values()] == [None] * 3
    assert condition(ns, GANG_PLACED)["status"] == "False"

    bed.set_capacity("node-1", resource, 1)

    ns.wait_running(*worker_names(3))
    (group,) = _pod_groups(ns)
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    pods = ns.pods().values()
    assert [pod["spec"]["schedulingGroup"] for pod in pods] == [{"podGroupName": "mnist-0"}] * 3
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
    assert {pod["metadata"]["labels"][BACKEND] for pod in pods} == {"kubernetes"}


def test_a_pod_group_belongs_to_one_attempt(bed: GangTestBed, ns: NamespaceClient, resource: str) -> None:
    bed.set_capacity("node-0", resource, 2)
    ns.submit(a_gang(2, a_pod_requesting(resource), retryPolicy={"maxRetryCount": 1}))
    ns.wait_running(*worker_names(2))
    first = ns.pods()["mnist-worker-0"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-0", "failed")

    ns.wait_replaced("mnist-worker-0", first)
    ns.until(
        lambda: [_name(group) for group in _pod_groups(ns)] == ["mnist-1"] or None,
        "only the group of the second attempt exists",
    )
    ns.end_pod("mnist-worker-0", "succeeded")
    ns.end_pod("mnist-worker-1", "succeeded")
    ns.wait_completed()
    ns.until(lambda: not _pod_groups(ns) or None, "no group is left")
    assert len(ns.pods()) == 2


def test_a_deleted_framework_deletes_its_pod_group(
    bed: GangTestBed, ns: NamespaceClient, resource: str
) -> None:
    ns.submit(a_gang(2, a_pod_requesting(resource)))
    ns.until(lambda: _pod_groups(ns) or None, "the group exists")

    ns.kubectl("delete", "framework", "mnist", "--timeout=60s")

    ns.until(lambda: not _pod_groups(ns) or None, "its group is deleted")


def test_a_retried_task_joins_its_pod_group(bed: GangTestBed, ns: NamespaceClient, resource: str) -> None:
    bed.set_capacity("node-0", resource, 2)
    ns.submit(with_task_retry(a_gang(2, a_pod_requesting(resource))))
    ns.wait_running(*worker_names(2))
    failed = ns.pods()["mnist-worker-1"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")

    ns.wait_replaced("mnist-worker-1", failed)
    assert ns.pods()["mnist-worker-1"]["spec"]["schedulingGroup"] == {"podGroupName": "mnist-0"}


def test_a_retried_task_does_not_wait_for_completed_ones(
    bed: GangTestBed, ns: NamespaceClient, resource: str
) -> None:
    bed.set_capacity("node-0", resource, 2)
    ns.submit(with_task_retry(a_gang(2, a_pod_requesting(resource))))
    ns.wait_running(*worker_names(2))
    ns.end_pod("mnist-worker-0", "succeeded")
    ns.until(lambda: ns.task(0)["state"] == "Completed" or None, "one task is completed")
    failed = ns.pods()["mnist-worker-1"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")

    ns.wait_replaced("mnist-worker-1", failed)
    # The scheduler does not count terminated pods, and the size of this group is immutable.
    assert "schedulingGroup" not in ns.pods()["mnist-worker-1"]["spec"]


def test_added_tasks_are_scheduled_alone(bed: GangTestBed, ns: NamespaceClient, resource: str) -> None:
    bed.set_capacity("node-0", resource, 3)
    ns.submit(a_gang(2, a_pod_requesting(resource)))
    ns.wait_running(*worker_names(2))

    ns.kubectl("scale", "framework", "mnist", "--replicas=3")

    ns.wait_running(*worker_names(3))


def test_every_permission_is_used_except_those_for_other_releases(
    bed: GangTestBed, ns: NamespaceClient, resource: str
) -> None:
    mark = bed.plane.audit.mark()
    bed.set_capacity("node-0", resource, 1)

    ns.submit(a_gang(1, a_pod_requesting(resource, "succeeded")))
    ns.wait_completed()

    unused = {f"{verb} scheduling.k8s.io/workloads" for verb in ("create", "get", "list", "delete")}
    unused.add("patch scheduling.k8s.io/podgroups")
    ns.until(
        lambda: unused_permissions(bed, mark, {"scheduling.k8s.io"}) == unused or None,
        "each permission is used",
    )


def _pod_groups(ns: NamespaceClient) -> list[Any]:
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{ns.namespace}/podgroups"
    items: list[Any] = ns.cluster.admin.get(path)["items"]
    return items


def _name(group: Any) -> str:
    return str(group["metadata"]["name"])


def _is_unschedulable(ns: NamespaceClient) -> bool:
    """Whether every pod of the gang is reported as unschedulable."""
    conditions = [pod["status"].get("conditions") or () for pod in ns.pods().values()]
    unschedulable = [
        any(one["type"] == "PodScheduled" and one["status"] == "False" for one in pod_conditions)
        for pod_conditions in conditions
    ]
    return len(unschedulable) == 3 and all(unschedulable)
