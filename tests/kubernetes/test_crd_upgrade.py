"""A newer definition takes the place of an older one under Frameworks that are there, and they go on."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.serialization.spec_json import spec_from_json
from tests.cluster import pods
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import Json, a_framework, a_role, full_framework
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import CRD
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.test_crd import frameworks, published
from tests.local.server import until

#: The definition of the first release, as it was.
OLDER = Path(__file__).parent / "crd-0.1.yaml"


@pytest.fixture
def plane(programs: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of its own: what a Framework is, is the same in all namespaces."""
    with ControlPlane(tmp_path / "plane", programs, nodes=2) as control_plane:
        yield control_plane


@pytest.fixture
def launcher(plane: ControlPlane, tmp_path: Path) -> Iterator[KubeLauncher]:
    """A launcher where Frameworks are what they were."""
    plane.kubectl("apply", "-f", str(OLDER))
    until(lambda: published(plane), "Frameworks are known as they were")
    launcher = KubeLauncher(tmp_path / "launcher", launcher_account(plane).kubeconfig)
    yield launcher
    launcher.end()


def get(plane: ControlPlane, name: str) -> Json:
    found: Json = plane.admin.get(frameworks("default", name))
    return found


def reaches(plane: ControlPlane, name: str, **counts: int) -> Json:
    """The Framework, once that many of its tasks are in these states, and no others are there."""

    def look() -> Json | None:
        found = get(plane, name)
        return found if found.get("status", {}).get("taskCounts") == counts else None

    return until(look, f"{name} has tasks {counts}")


def seen(plane: ControlPlane, name: str) -> Json:
    """The Framework, once the launcher has said something about it."""
    return until(lambda: found if (found := get(plane, name)).get("status") else None, f"{name} is seen")


def uids(plane: ControlPlane) -> dict[str, str]:
    found: list[Any] = plane.admin.get(pods.path("default"))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def with_nulls() -> Json:
    framework = copy.deepcopy(full_framework())
    framework["metadata"]["name"] = "nulls"
    framework["spec"] |= {"gang": None, "discovery": None, "description": None, "activeDeadlineSeconds": None}
    return framework


def test_frameworks_are_read_changed_and_go_on(plane: ControlPlane, launcher: KubeLauncher) -> None:
    for framework in (
        a_framework(name="running"),
        a_framework(name="held", executionType="Create"),
        a_framework(a_role("ps", 1), a_role("worker", 1), name="two"),
        with_nulls(),
    ):
        plane.admin.post(frameworks("default"), framework)
    before = {
        "running": reaches(plane, "running", AttemptRunning=2),
        "two": reaches(plane, "two", AttemptRunning=2),
        "held": seen(plane, "held"),
        "nulls": seen(plane, "nulls"),
    }
    made = uids(plane)

    applied = plane.kubectl("apply", "-f", str(CRD))
    until(lambda: "replicas" in _spec_fields(plane) or None, "Frameworks are known as they are")
    after = {name: get(plane, name) for name in before}
    again = plane.kubectl("apply", "-f", str(CRD))

    # Nothing was lost, and nothing done.
    assert applied.endswith("configured\n")
    assert again.endswith("unchanged\n")
    for name, was in before.items():
        assert spec_from_json(after[name]["spec"]) == spec_from_json(was["spec"]), name
        assert after[name]["status"] == was["status"], name
    assert uids(plane) == made
    assert before["nulls"]["spec"]["gang"] is None
    assert "gang" not in after["nulls"]["spec"]
    # Whatever was possible still is.
    plane.admin.patch(frameworks("default", "held"), {"spec": {"executionType": "Start"}})
    plane.kubectl("label", "fw", "--all", "a=b")
    reaches(plane, "held", AttemptRunning=2)
    # What is new counts once the launcher is of the new release, too: for a moment, who has watched since before is
    # still shown Frameworks without the new field.
    launcher.stop()
    launcher.start()
    plane.kubectl("scale", "fw/running", "--replicas=3")
    reaches(plane, "running", AttemptRunning=3)
    assert made.items() <= uids(plane).items()
    for index in range(3):
        plane.kubectl("annotate", "pod", f"running-worker-{index}", "launcher.test/ends=succeeded")
    reaches(plane, "running", Completed=3)
    plane.kubectl("delete", "fw", "two", "--wait=false")
    until(lambda: plane.admin.ask("GET", frameworks("default", "two")).status == 404 or None, "two is gone")


def _spec_fields(plane: ControlPlane) -> Json:
    fields: Json = (published(plane) or {"properties": {"spec": {"properties": {}}}})["properties"]
    spec: Json = fields["spec"]["properties"]
    return spec
