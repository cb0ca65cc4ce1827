"""Existing Frameworks continue when a newer CRD replaces an older one."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.serialization.spec_json import spec_from_json
from tests.builders import Json, a_framework, a_role
from tests.cluster import pods
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import full_framework
from tests.eventually import until
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import CRD
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import frameworks_path
from tests.kubernetes.test_crd import published_schema

#: The CRD of the first release.
OLD_CRD = Path(__file__).parent / "crd-0.1.yaml"


@pytest.fixture
def plane(programs: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane for this module, because a CRD applies to all namespaces."""
    with ControlPlane(tmp_path / "plane", programs, nodes=2) as control_plane:
        yield control_plane


@pytest.fixture
def launcher(plane: ControlPlane, tmp_path: Path) -> Iterator[KubeLauncher]:
    """A launcher on a cluster with the old CRD."""
    plane.kubectl("apply", "-f", str(OLD_CRD))
    until(lambda: published_schema(plane), "the old schema is published")
    launcher = KubeLauncher(tmp_path / "launcher", launcher_account(plane).kubeconfig)
    yield launcher
    launcher.end()


def get_framework(plane: ControlPlane, name: str) -> Json:
    framework: Json = plane.admin.get(frameworks_path("default", name))
    return framework


def wait_for_task_counts(plane: ControlPlane, name: str, **counts: int) -> Json:
    """Waits until exactly these numbers of tasks are in these states, and returns the Framework."""

    def probe() -> Json | None:
        framework = get_framework(plane, name)
        return framework if framework.get("status", {}).get("taskCounts") == counts else None

    return until(probe, f"{name} has tasks {counts}")


def wait_for_status(plane: ControlPlane, name: str) -> Json:
    """Waits until the Framework has a status, and returns it."""

    def probe() -> Json | None:
        framework = get_framework(plane, name)
        return framework if framework.get("status") else None

    return until(probe, f"{name} has a status")


def pod_uids(plane: ControlPlane) -> dict[str, str]:
    found: list[Any] = plane.admin.get(pods.path("default"))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def with_nulls() -> Json:
    framework = copy.deepcopy(full_framework())
    framework["metadata"]["name"] = "nulls"
    framework["spec"] |= {"gang": None, "discovery": None, "description": None, "activeDeadlineSeconds": None}
    return framework


def test_frameworks_continue_after_a_crd_upgrade(plane: ControlPlane, launcher: KubeLauncher) -> None:
    for framework in (
        a_framework(name="running"),
        a_framework(name="held", executionType="Create"),
        a_framework(a_role("ps", 1), a_role("worker", 1), name="two"),
        with_nulls(),
    ):
        plane.admin.post(frameworks_path("default"), framework)
    before = {
        "running": wait_for_task_counts(plane, "running", AttemptRunning=2),
        "two": wait_for_task_counts(plane, "two", AttemptRunning=2),
        "held": wait_for_status(plane, "held"),
        "nulls": wait_for_status(plane, "nulls"),
    }
    uids_before = pod_uids(plane)

    applied = plane.kubectl("apply", "-f", str(CRD))
    until(lambda: "replicas" in _spec_fields(plane) or None, "the new schema is published")
    after = {name: get_framework(plane, name) for name in before}
    applied_again = plane.kubectl("apply", "-f", str(CRD))

    # No field is lost, and no pod is replaced.
    assert "/frameworks.launcher.microsoft.com configured\n" in applied
    assert [line.rsplit(" ", 1)[1] for line in applied_again.splitlines()] == ["unchanged", "unchanged"]
    for name, old in before.items():
        assert spec_from_json(after[name]["spec"]) == spec_from_json(old["spec"]), name
        assert after[name]["status"] == old["status"], name
    assert pod_uids(plane) == uids_before
    assert before["nulls"]["spec"]["gang"] is None
    assert "gang" not in after["nulls"]["spec"]
    # The fields of the old CRD still work.
    plane.admin.patch(frameworks_path("default", "held"), {"spec": {"executionType": "Start"}})
    plane.kubectl("label", "fw", "--all", "a=b")
    wait_for_task_counts(plane, "held", AttemptRunning=2)
    # The fields of the new CRD work after a restart of the launcher: older watches may still get Frameworks without
    # them for a moment.
    launcher.stop()
    launcher.start()
    plane.kubectl("scale", "fw/running", "--replicas=3")
    wait_for_task_counts(plane, "running", AttemptRunning=3)
    assert uids_before.items() <= pod_uids(plane).items()
    for index in range(3):
        plane.kubectl("annotate", "pod", f"running-worker-{index}", "launcher.test/ends=succeeded")
    wait_for_task_counts(plane, "running", Completed=3)
    plane.kubectl("delete", "fw", "two", "--wait=false")
    until(
        lambda: plane.admin.request("GET", frameworks_path("default", "two")).status == 404 or None,
        "two is deleted",
    )


def _spec_fields(plane: ControlPlane) -> Json:
    fields: Json = (published_schema(plane) or {"properties": {"spec": {"properties": {}}}})["properties"]
    spec: Json = fields["spec"]["properties"]
    return spec
