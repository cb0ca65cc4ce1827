"""An unavailable webhook does not block the cluster's own controllers."""

import pytest

from tests.builders import a_framework
from tests.cluster.controlplane import ControlPlane
from tests.eventually import until
from tests.kubernetes.namespace_client import frameworks_path
from tests.kubernetes.webhook_server import WebhookServer, registered_webhook


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_without_the_webhook_a_namespace_can_be_deleted(
    cluster: ControlPlane, webhook_server: WebhookServer, policy: str
) -> None:
    namespace = cluster.new_namespace()
    frameworks = frameworks_path(namespace)

    with registered_webhook(cluster, webhook_server, policy=policy):
        cluster.admin.post(frameworks, a_framework())
        finalized = a_framework(name="held")
        finalized["metadata"]["finalizers"] = ["example.com/hold"]
        cluster.admin.post(frameworks, finalized)
        with webhook_server.down():
            cluster.admin.delete(f"/api/v1/namespaces/{namespace}")
            until(
                lambda: is_terminating(cluster, f"{frameworks}/held"),
                "the Framework is being deleted",
            )
            cluster.admin.patch(f"{frameworks}/held", {"metadata": {"finalizers": None}})
            until(
                lambda: cluster.admin.request("GET", f"/api/v1/namespaces/{namespace}").status == 404 or None,
                "the namespace is deleted",
            )


def is_terminating(cluster: ControlPlane, path: str) -> bool | None:
    return "deletionTimestamp" in cluster.admin.get(path)["metadata"] or None
