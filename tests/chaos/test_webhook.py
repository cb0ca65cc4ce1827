"""An outage of the webhook: Frameworks stored without validation are validated before they run."""

from collections.abc import Iterator

import pytest

from tests.chaos.harness import ChaosHarness
from tests.chaos.workloads import random_workload
from tests.cluster.users import User
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient
from tests.kubernetes.webhook_server import WebhookServer, a_framework_waiting_for_itself, registered_webhook


@pytest.fixture
def webhook(account: User) -> Iterator[WebhookServer]:
    server = WebhookServer(account.kubeconfig)
    yield server
    server.end()


@pytest.mark.timeout(240)
def test_without_the_webhook_valid_frameworks_run(
    harness: ChaosHarness, launcher: KubeLauncher, webhook: WebhookServer
) -> None:
    other = NamespaceClient(harness.cluster, harness.cluster.new_namespace())
    with registered_webhook(harness.cluster, webhook):
        for number in range(3):
            harness.submit(random_workload(harness.random, f"v{number}"))
            harness.pause(1.0)
            with webhook.down():
                harness.submit(random_workload(harness.random, f"u{number}"))
                harness.cluster.admin.post(
                    other.frameworks, a_framework_waiting_for_itself(f"unvalidated-{number}")
                )
        harness.wait_for_completion(timeout_seconds=90)

    harness.check(launcher)
    other.kubectl("wait", "--for=condition=Valid=False", "fw", "--all", "--timeout=60s")
    assert len(other.kubectl("get", "fw", "-o", "name").split()) == 3
    assert other.pods() == {}
    harness.cluster.admin.delete(f"/api/v1/namespaces/{other.namespace}")
