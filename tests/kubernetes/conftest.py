"""A control plane with the Framework CRD, and launchers that end with their test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.cluster.components import Component
from tests.cluster.conftest import namespace
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.account import launcher_account
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import GROUP, NamespaceClient, frameworks_path
from tests.kubernetes.permissions import (
    launcher_permissions,
    launcher_requests,
    rejected,
    unpermitted,
)
from tests.kubernetes.running_proxy import RunningProxy, running_proxy
from tests.kubernetes.webhook_server import WebhookServer
from tests.launcher_process import PROJECT

__all__ = ["account", "cluster", "launch", "launcher", "namespace", "ns", "shared_launcher"]

#: RBAC rules for everything in the launcher's API group.
ALL_ON_FRAMEWORKS = [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}]
CRD = PROJECT / "deploy" / "kubernetes" / "base" / "crd.yaml"


def define_frameworks(plane: ControlPlane) -> None:
    """Applies the CRD and waits until Frameworks and their schema are served."""
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    plane.until_served("/apis/launcher.microsoft.com/v1/frameworks")
    plane.until_served("/openapi/v3/apis/launcher.microsoft.com/v1")


@pytest.fixture(scope="package")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with ten nodes and the CRD; each test uses its own namespace."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("cluster"), programs)
    # As in OpenShift: blockOwnerDeletion requires a permission.
    control_plane.add_flags(
        Component.APISERVER, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    )
    # Autoscalers check every 15 seconds, and first after as many.
    control_plane.add_flags(Component.CONTROLLER_MANAGER, "--horizontal-pod-autoscaler-sync-period=1s")
    with control_plane:
        define_frameworks(control_plane)
        yield control_plane


@pytest.fixture(scope="package")
def account(cluster: ControlPlane) -> Iterator[User]:
    """The launcher's service account; finally checks that its permissions sufficed in every test."""
    mark = cluster.audit.mark()
    yield launcher_account(cluster)
    requests = launcher_requests(cluster.audit.since(mark))
    assert rejected(requests) == set()
    assert unpermitted(launcher_permissions(), requests) == set()


class Launch(Protocol):
    def __call__(self, *flags: str, kubeconfig: Path | None = None) -> KubeLauncher: ...


@pytest.fixture
def launch(account: User, tmp_path: Path) -> Iterator[Launch]:
    """Starts a launcher with these flags, as its service account or with another kubeconfig."""
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
    """A launcher for one test, which may kill and restart it."""
    return launch()


@pytest.fixture(scope="module")
def shared_launcher(account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeLauncher]:
    """A launcher shared by the tests of a module."""
    launcher = KubeLauncher(tmp_path_factory.mktemp("launcher"), account.kubeconfig)
    yield launcher
    launcher.end()


@pytest.fixture
def ns(cluster: ControlPlane, namespace: str) -> Iterator[NamespaceClient]:
    """A user's view of an empty namespace; finally checks that the launcher had no conflicts with itself."""
    client = NamespaceClient(cluster, namespace)
    yield client
    conflicts = [
        write for write in client.launcher_requests("update", "frameworks", "status") if write.status == 409
    ]
    # A concurrent change of a Framework by the test can cause a conflict.
    assert conflicts == [] or client.is_edited_by_others


@pytest.fixture
def frameworks(namespace: str) -> str:
    """The API path of the Frameworks of the namespace."""
    return frameworks_path(namespace)


@pytest.fixture(scope="module")
def webhook_server(account: User) -> Iterator[WebhookServer]:
    """A webhook with the launcher's service account, which is not registered yet."""
    server = WebhookServer(account.kubeconfig)
    yield server
    server.end()


@pytest.fixture(scope="module")
def proxy(
    cluster: ControlPlane, account: User, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningProxy]:
    """An API proxy with the permissions of the launcher's service account."""
    with running_proxy(cluster, account, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture
def user(cluster: ControlPlane, namespace: str) -> User:
    """A user with all permissions on Frameworks and pods in one namespace, and none elsewhere."""
    user = cluster.new_user()
    pods = ["pods", "pods/log", "pods/exec", "pods/portforward", "events"]
    rules = [*ALL_ON_FRAMEWORKS, {"apiGroups": [""], "resources": pods, "verbs": ["*"]}]
    cluster.grant(user, rules, namespace=namespace)
    return user
