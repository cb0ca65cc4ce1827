"""``/metrics`` with authentication and authorization by the cluster, and the permissions of the component for it."""

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.conftest import Launch
from tests.launcher_process import PROJECT

COMPONENT_RBAC = PROJECT / "deploy" / "kubernetes" / "components" / "metrics-auth" / "rbac.yaml"
READER = "framework-launcher-metrics-reader"


@pytest.fixture
def component(cluster: ControlPlane, account: User) -> Iterator[None]:
    """Installs the permissions of the component for one test."""
    cluster.kubectl("apply", f"--filename={COMPONENT_RBAC}")
    for group, resource in (
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ):
        cluster.until_allowed(account, verb="create", group=group, resource=resource)
    yield
    cluster.kubectl("delete", f"--filename={COMPONENT_RBAC}")


def status_of_metrics(url: str, token: str) -> int:
    """The status of the response to a request for ``/metrics`` with this token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/metrics", headers=headers), timeout=TIMEOUT_SECONDS
        ) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.usefixtures("component")
def test_the_cluster_authorizes_access_to_metrics(cluster: ControlPlane, launch: Launch) -> None:
    launcher = launch("--metrics-auth")
    namespace = cluster.new_namespace()
    reader, other = (
        cluster.service_account(namespace, "prometheus"),
        cluster.service_account(namespace, "other"),
    )
    cluster.kubectl(
        "create",
        "clusterrolebinding",
        namespace,
        f"--clusterrole={READER}",
        f"--serviceaccount={namespace}:prometheus",
    )

    # Bindings apply with a delay.
    until(lambda: status_of_metrics(launcher.url, reader.token) == 200 or None, "the reader is authorized")

    assert status_of_metrics(launcher.url, other.token) == 403
    assert status_of_metrics(launcher.url, "no-such-token") == 401
    assert status_of_metrics(launcher.url, "") == 401
