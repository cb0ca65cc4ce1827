"""What the webhook can hold up when it does not answer: nothing that the cluster does by itself."""

from collections.abc import Iterator

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.core.manifests import a_framework
from tests.kubernetes.webhook import WebhookServer, configured
from tests.local.server import until


@pytest.fixture(scope="module")
def server(account: User) -> Iterator[WebhookServer]:
    """A webhook that runs as the launcher does."""
    running = WebhookServer(account.kubeconfig)
    yield running
    running.end()


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_without_the_webhook_a_namespace_can_be_deleted(
    cluster: ControlPlane, server: WebhookServer, policy: str
) -> None:
    namespace = cluster.new_namespace()
    frameworks = f"/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks"

    with configured(cluster, server, policy=policy):
        cluster.admin.post(frameworks, a_framework())
        held = a_framework(name="held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.admin.post(frameworks, held)
        with server.down():
            cluster.admin.delete(f"/api/v1/namespaces/{namespace}")
            until(lambda: is_going(cluster, f"{frameworks}/held"), "the namespace takes its Frameworks along")
            cluster.admin.patch(f"{frameworks}/held", {"metadata": {"finalizers": None}})
            until(
                lambda: cluster.admin.ask("GET", f"/api/v1/namespaces/{namespace}").status == 404 or None,
                "the namespace is gone",
            )


def is_going(cluster: ControlPlane, path: str) -> bool | None:
    return "deletionTimestamp" in cluster.admin.get(path)["metadata"] or None
