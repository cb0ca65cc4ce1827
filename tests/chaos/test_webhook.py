"""The webhook may be away: what gets in unchecked is checked before it is run, and the rest goes on as ever."""

from collections.abc import Iterator

import pytest

from tests.chaos.load import load
from tests.chaos.scene import Scene
from tests.cluster.users import User
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.webhook import WebhookServer, a_waiting_framework, configured
from tests.kubernetes.world import World


@pytest.fixture
def webhook(account: User) -> Iterator[WebhookServer]:
    server = WebhookServer(account.kubeconfig)
    yield server
    server.end()


@pytest.mark.timeout(240)
def test_while_the_webhook_is_away_frameworks_come_in_and_the_sound_ones_run(
    scene: Scene, launcher: KubeLauncher, webhook: WebhookServer
) -> None:
    other = World(scene.cluster, scene.cluster.new_namespace())
    with configured(scene.cluster, webhook):
        for number in range(3):
            scene.submit(load(scene.chance, f"v{number}"))
            scene.moment(1.0)
            with webhook.down():
                scene.submit(load(scene.chance, f"u{number}"))
                scene.cluster.admin.post(other.frameworks, a_waiting_framework(f"slipped-{number}"))
        scene.settled(within=90)

    scene.check(launcher)
    other.kubectl("wait", "--for=condition=Valid=False", "fw", "--all", "--timeout=60s")
    assert len(other.kubectl("get", "fw", "-o", "name").split()) == 3
    assert other.pods() == {}
    scene.cluster.admin.delete(f"/api/v1/namespaces/{other.namespace}")
