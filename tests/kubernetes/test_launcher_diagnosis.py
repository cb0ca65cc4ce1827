"""Diagnosis of the launcher itself on a control plane: no leader, no status, a throttled or interrupted client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.controller.framework_controller import ControllerOptions
from tests.builders import Json, a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.eventually import until
from tests.kubernetes.account import LAUNCHER_NAMESPACE
from tests.kubernetes.busy_proxy import BusyProxy, busy_proxy, kubeconfig_for
from tests.kubernetes.conftest import Launch
from tests.kubernetes.diagnosis_test_bed import DiagnosisTestBed, framework_name
from tests.kubernetes.namespace_client import a_task_pod

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LAUNCHER_NAMESPACE}/leases/framework-launcher"
#: Seconds, longer than any test.
LONG = 3600


@pytest.fixture
def api_server(cluster: ControlPlane) -> Iterator[BusyProxy]:
    with busy_proxy(cluster) as proxy:
        yield proxy


@pytest.fixture
def bed(
    cluster: ControlPlane, account: User, api_server: BusyProxy, launch: Launch, tmp_path: Path
) -> DiagnosisTestBed:
    """A launcher that leads, whose creations of pods can be rejected."""
    launcher = launch(kubeconfig=kubeconfig_for(api_server.url, account.kubeconfig, tmp_path))
    launcher.wait_for_log("leading")
    return DiagnosisTestBed(cluster, launcher, tmp_path)


@pytest.fixture
def other_leader(bed: DiagnosisTestBed) -> Iterator[None]:
    """Another holder of the Lease, which does nothing and does not renew it."""
    spec = {"holderIdentity": "another", "leaseDurationSeconds": LONG}
    bed.plane.admin.patch(LEASE, {"spec": spec})
    bed.launcher.wait_for_log("leadership lost")
    yield
    bed.plane.admin.patch(LEASE, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})


def evidence(finding: Json, obj: str) -> Json:
    """The evidence of that object."""
    (found,) = [each for each in finding["evidence"] if each["object"] == obj]
    return dict(found)


@pytest.mark.usefixtures("other_leader")
def test_a_framework_that_no_launcher_processes_names_the_leader(bed: DiagnosisTestBed) -> None:
    bed.one("FL-SYS-01", a_task_pod())

    finding, leader = bed.finding("FL-SYS-01"), bed.finding("FL-SYS-01", "FL-SYS-09")

    holder = evidence(finding, "lease/framework-launcher")
    assert (holder["field"], holder["value"].partition(",")[0]) == ("spec.holderIdentity", "another")
    assert finding["nextStep"].endswith(f"kubectl -n {LAUNCHER_NAMESPACE} get pods,lease")
    assert f"another replica leads after {LONG}s" in leader["summary"]
    assert "FL-SYS-09  Error, waiting may help" in bed.why("FL-SYS-01")


def test_a_change_that_no_launcher_processes_is_named(
    bed: DiagnosisTestBed, request: pytest.FixtureRequest
) -> None:
    cause = "FL-SYS-02"
    ns = bed.one(cause, a_task_pod())
    ns.wait_running(bed.pod_name(cause))
    request.getfixturevalue("other_leader")

    ns.kubectl("scale", "framework", framework_name(cause), "--replicas=2")
    finding = bed.finding(cause)

    assert "generation 2" in finding["summary"]
    assert evidence(finding, f"framework/{framework_name(cause)}")["value"] == "1, metadata.generation 2"
    assert evidence(finding, "lease/framework-launcher")["value"].startswith("another, ")


def test_a_throttled_launcher_is_named(bed: DiagnosisTestBed, api_server: BusyProxy) -> None:
    cause = "FL-SYS-03"
    api_server.busy = LONG
    bed.one(cause, a_task_pod())

    finding = bed.finding(cause)

    assert finding["nextStep"] == "wait; the launcher continues by itself"
    assert "the API server limits the launcher's requests" in finding["summary"]
    # The launcher knows it at once, and the status has it with the next write.
    (shown,) = finding["evidence"]
    assert shown["field"] == "Retry-After" or "too many requests" in shown["value"]


def test_an_interrupted_connection_to_the_api_server_is_named(
    bed: DiagnosisTestBed, api_server: BusyProxy
) -> None:
    cause = "FL-SYS-07"
    api_server.broken = True
    bed.one(cause, a_task_pod())

    finding = bed.finding(cause)

    assert "cannot reach the API server" in finding["summary"]
    assert "Error creating pod, retrying" in evidence(finding, f"framework/{framework_name(cause)}")["value"]


def test_a_backlog_of_the_launcher_is_named(bed: DiagnosisTestBed, api_server: BusyProxy) -> None:
    cause, workers = "FL-SYS-10", ControllerOptions().workers
    api_server.slow = True
    ns = bed.namespace(cause)
    for index in range(workers):
        role = a_role(task={"pod": a_task_pod()})
        bed.plane.admin.post(ns.frameworks, a_framework(role, name=f"earlier{index}"))
    until(lambda: api_server.delayed >= workers, "every worker waits for a response")
    bed.one(cause, a_task_pod())

    finding = bed.finding(cause)

    assert "in the launcher's queue, the first for 1" in finding["summary"]
    # Those whose pods are created may have changed in the meantime, and wait too.
    assert 1 <= int(evidence(finding, "launcher")["value"]) <= workers + 1
