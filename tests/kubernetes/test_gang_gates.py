"""Gangs without a gang scheduler: scheduling gates hold their pods until all of them fit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.gang_test_bed import (
    BACKEND,
    GANG_PLACED,
    GangTestBed,
    a_gang,
    a_pod_requesting,
    condition,
    gang_test_bed,
    pending_reasons,
    worker_names,
)
from tests.kubernetes.launcher import USER_AGENT, KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient


@pytest.fixture(scope="module")
def bed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangTestBed]:
    with gang_test_bed(tmp_path_factory.mktemp("gates"), programs) as test_bed:
        yield test_bed


@pytest.fixture
def ns(bed: GangTestBed) -> NamespaceClient:
    return bed.new_namespace()


@pytest.fixture
def resource(ns: NamespaceClient) -> str:
    """A resource that only the pods of this test request; no node has it at first."""
    return f"launcher.test/{ns.namespace}"


@pytest.fixture
def launcher(bed: GangTestBed) -> Iterator[KubeLauncher]:
    launcher = bed.launch()
    yield launcher
    launcher.end()


def test_a_gang_that_does_not_fit_is_pending_until_all_of_it_fits(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    bed.set_capacity("node-0", resource, 2)
    ns.submit(a_gang(3, a_pod_requesting(resource)))

    message = ns.until(lambda: ns.events("GangPending") or None, "the event is recorded")

    assert pending_reasons(ns) == dict.fromkeys(worker_names(3), "SchedulingGated")
    assert message == [
        "Capacity for 2 of 3 tasks (minTasks 3): pod mnist-worker-2: 0/2 nodes are available: "
        f"2 Insufficient {resource}."
    ]
    assert condition(ns, GANG_PLACED)["status"] == "False"

    bed.set_capacity("node-1", resource, 1)

    ns.wait_running(*worker_names(3))
    assert {pod["metadata"]["labels"][BACKEND] for pod in ns.pods().values()} == {"gates"}
    ns.until(lambda: condition(ns, GANG_PLACED).get("status") == "True" or None, "the gang is placed")
    assert condition(ns, GANG_PLACED)["message"] == "All 3 tasks of the gang are scheduled by gates."
    assert ns.events("GangAdmitted") == ["Capacity found for 3 tasks; scheduling gates removed."]


def test_of_two_gangs_that_fit_only_alone_the_older_runs_first(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    ns.submit(a_gang(2, a_pod_requesting(resource), name="first"))
    ns.until(lambda: ns.events("GangPending") or None, "the first gang is pending")
    ns.submit(a_gang(2, a_pod_requesting(resource), name="second"))
    ns.until(lambda: len(ns.events("GangPending")) == 2 or None, "the second gang is pending")

    bed.set_capacity("node-0", resource, 1)
    bed.set_capacity("node-1", resource, 2)

    ns.until(
        lambda: condition(ns, GANG_PLACED, "first").get("status") == "True" or None,
        "the first gang is placed",
    )
    assert pending_reasons(ns) == {
        **dict.fromkeys(worker_names(2, "first"), ""),
        **dict.fromkeys(worker_names(2, "second"), "SchedulingGated"),
    }

    for pod in worker_names(2, "first"):
        ns.end_pod(pod, "succeeded")

    ns.until(
        lambda: condition(ns, GANG_PLACED, "second").get("status") == "True" or None,
        "the second gang is placed",
    )


def test_a_pending_gang_survives_a_change_of_leader(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    ns.submit(a_gang(2, a_pod_requesting(resource)))
    ns.until(lambda: ns.events("GangPending") or None, "the gang is pending")
    launcher.stop()
    bed.set_capacity("node-0", resource, 2)

    launcher.start()

    ns.wait_running(*worker_names(2))


def test_a_partly_admitted_gang_is_completed_after_a_restart(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    bed.set_capacity("node-0", resource, 1)
    ns.submit(a_gang(2, a_pod_requesting(resource)))
    ns.until(lambda: ns.events("GangPending") or None, "the gang is pending")
    launcher.kill()
    _remove_gate(ns, "mnist-worker-0")

    launcher.start()

    ns.until(lambda: not _gated(ns) or None, "no gate is left")
    bed.set_capacity("node-1", resource, 1)
    ns.wait_running(*worker_names(2))


def test_a_retried_task_is_scheduled_alone(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    bed.set_capacity("node-0", resource, 2)
    framework = a_gang(2, a_pod_requesting(resource))
    framework["spec"]["taskRoles"][0]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    ns.submit(framework)
    ns.wait_running(*worker_names(2))
    ns.end_pod("mnist-worker-0", "succeeded")
    failed = ns.pods()["mnist-worker-1"]["metadata"]["uid"]

    ns.end_pod("mnist-worker-1", "failed")

    ns.wait_replaced("mnist-worker-1", failed)


def test_a_gang_that_times_out_is_retried_by_policy(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    bed.set_capacity("node-0", resource, 1)
    gang = a_gang(2, a_pod_requesting(resource), gang={"timeoutSeconds": 2}, retryPolicy={"maxRetryCount": 1})
    ns.submit(gang)

    status = ns.wait_completed()["status"]

    assert status["attemptStatus"]["completionStatus"]["phrase"] == "GangTimeout"
    assert "0 of 2 tasks have a node" in status["attemptStatus"]["completionStatus"]["diagnostics"]
    assert status["retryPolicyStatus"]["totalRetriedCount"] == 1
    ns.until(lambda: not ns.pods() or None, "its pods are deleted")


def test_the_minimum_of_a_gang_is_admitted_first(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    bed.set_capacity("node-0", resource, 1)
    ns.submit(a_gang(3, a_pod_requesting(resource), gang={"minTasks": 2}))
    ns.until(lambda: ns.events("GangPending") or None, "the gang is pending")
    ns.until(lambda: len(_gated(ns)) == 3 or None, "all pods are gated")

    bed.set_capacity("node-1", resource, 1)

    ns.until(lambda: _running(ns) == 2 or None, "two pods run")
    bed.set_capacity("node-1", resource, 2)
    ns.until(lambda: _running(ns) == 3 or None, "all pods run")


def test_a_pending_gang_scaled_down_waits_for_fewer_pods(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    bed.set_capacity("node-0", resource, 2)
    ns.submit(a_gang(3, a_pod_requesting(resource)))
    ns.until(lambda: ns.events("GangPending") or None, "the gang is pending")

    ns.kubectl("scale", "framework", "mnist", "--replicas=2")

    ns.wait_running(*worker_names(2))


def test_a_queue_without_a_queueing_backend_is_an_error(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    ns.submit(a_gang(1, a_pod_requesting(resource), gang={"queue": "research"}))

    message = ns.until(lambda: ns.events("FailedCreate") or None, "the event is recorded")

    assert "localqueues.kueue.x-k8s.io nor podgroups.scheduling.volcano.sh" in message[0]
    assert ns.pods() == {}
    ns.until(
        lambda: "spec.gang.queue" in condition(ns, GANG_PLACED).get("message", "") or None,
        "the condition names the field",
    )


def test_nodes_are_watched_only_while_a_gang_is_pending(
    bed: GangTestBed, ns: NamespaceClient, resource: str, launcher: KubeLauncher
) -> None:
    before = bed.plane.audit.mark()
    ns.submit(a_gang(1, a_pod_requesting(resource)))
    ns.until(lambda: _node_requests(bed, before) == ["list", "watch"] or None, "nodes are watched")
    waiting = bed.plane.audit.mark()

    bed.set_capacity("node-0", resource, 1)

    # The audit log has a second line for a watch when it ends.
    ns.until(lambda: _node_requests(bed, waiting) == ["watch"] or None, "nodes are no longer watched")
    ns.wait_running("mnist-worker-0")


def _node_requests(bed: GangTestBed, mark: int) -> list[str]:
    requests = bed.plane.audit.since(mark, user_agent=USER_AGENT)
    return [request.verb for request in requests if request.resource == "nodes"]


def _remove_gate(ns: NamespaceClient, pod: str) -> None:
    """Removes the scheduling gate of a pod, as the launcher does."""
    ns.kubectl("patch", "pod", pod, "--type=merge", '--patch={"spec":{"schedulingGates":null}}')


def _gated(ns: NamespaceClient) -> list[str]:
    return [name for name, pod in ns.pods().items() if pod["spec"].get("schedulingGates")]


def _running(ns: NamespaceClient) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in ns.pods().values())
