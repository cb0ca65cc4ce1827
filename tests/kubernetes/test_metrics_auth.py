"""``/metrics`` behind the cluster's own authentication and authorization, with the rights of its component."""

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.conftest import Launch
from tests.local.server import PATIENCE, PROJECT, until

COMPONENT = PROJECT / "deploy" / "kubernetes" / "components" / "metrics-auth" / "rbac.yaml"
READER = "framework-launcher-metrics-reader"


@pytest.fixture
def component(cluster: ControlPlane, account: User) -> Iterator[None]:
    """The rights of the component, for this test alone."""
    cluster.kubectl("apply", f"--filename={COMPONENT}")
    for group, resource in (
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ):
        cluster.until_allowed(account, verb="create", group=group, resource=resource)
    yield
    cluster.kubectl("delete", f"--filename={COMPONENT}")


def code(url: str, token: str) -> int:
    """The status of the answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/metrics", headers=headers), timeout=PATIENCE
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.usefixtures("component")
def test_the_cluster_decides_who_may_get_the_metrics(cluster: ControlPlane, launch: Launch) -> None:
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

    # kube-apiserver takes a while to hear of a binding.
    until(lambda: code(launcher.url, reader.token) == 200 or None, "the reader reads")

    assert code(launcher.url, other.token) == 403
    assert code(launcher.url, "no-such-token") == 401
    assert code(launcher.url, "") == 401
