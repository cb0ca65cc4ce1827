"""A control plane that knows Frameworks, and launchers for it that end with their test, whatever becomes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.cluster.conftest import namespace, programs
from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.cluster.users import User
from tests.kubernetes.account import launcher_account
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.rights import beyond, launcher_rights, of_launcher, refused
from tests.kubernetes.world import World
from tests.local.server import PROJECT

__all__ = ["account", "cluster", "launch", "launcher", "namespace", "programs", "shared_launcher", "world"]

CRD = PROJECT / "deploy" / "kubernetes" / "base" / "crd.yaml"


def define_frameworks(plane: ControlPlane) -> None:
    """Apply the CRD, and return when the API server serves Frameworks, and tells clients of their fields."""
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    plane.until_served("/apis/launcher.microsoft.com/v1/frameworks")
    plane.until_served("/openapi/v3/apis/launcher.microsoft.com/v1")


@pytest.fixture(scope="package")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with ten nodes that knows Frameworks: each test keeps to a namespace of its own."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("cluster"), programs)
    # As in OpenShift: who lets a pod hold up the deletion of its Framework must have a right to that.
    control_plane.tell(Part.APISERVER, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
    # Autoscalers look at what they scale every 15 seconds, and first after as many.
    control_plane.tell(Part.CONTROLLER_MANAGER, "--horizontal-pod-autoscaler-sync-period=1s")
    with control_plane:
        define_frameworks(control_plane)
        yield control_plane


@pytest.fixture(scope="package")
def account(cluster: ControlPlane) -> Iterator[User]:
    """Whom launchers run as: their service account, whose rights from deploy/ were enough in every test, in the end."""
    mark = cluster.audit.mark()
    yield launcher_account(cluster)
    asked = of_launcher(cluster.audit.since(mark))
    assert refused(asked) == set()
    assert beyond(launcher_rights(), asked) == set()


class Launch(Protocol):
    def __call__(self, *flags: str, kubeconfig: Path | None = None) -> KubeLauncher: ...


@pytest.fixture
def launch(account: User, tmp_path: Path) -> Iterator[Launch]:
    """Start a launcher with these flags, as its service account or as whoever the kubeconfig says."""
    launchers: list[KubeLauncher] = []

    def start(*flags: str, kubeconfig: Path | None = None) -> KubeLauncher:
        directory = tmp_path / f"launcher{len(launchers)}"
        launchers.append(KubeLauncher(directory, kubeconfig or account.kubeconfig, *flags))
        return launchers[-1]

    yield start
    for launcher in launchers:
        launcher.end()


@pytest.fixture
def launcher(launch: Launch) -> KubeLauncher:
    """A launcher for this test alone, to be killed and restarted at will."""
    return launch()


@pytest.fixture(scope="module")
def shared_launcher(account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeLauncher]:
    """A launcher for all tests of a module; they leave it alone."""
    launcher = KubeLauncher(tmp_path_factory.mktemp("launcher"), account.kubeconfig)
    yield launcher
    launcher.end()


@pytest.fixture
def world(cluster: ControlPlane, namespace: str) -> Iterator[World]:
    """The user's view of an empty namespace; in the end, the launcher has never been in its own way there."""
    view = World(cluster, namespace)
    yield view
    conflicts = [write for write in view.asked("update", "frameworks", "status") if write.status == 409]
    # Who changes a Framework at the very moment may get in its way.
    assert conflicts == [] or view.is_edited_by_others
