"""An API server that has too much to do is left alone for as long as it asks for."""

from itertools import pairwise
from pathlib import Path

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.core.manifests import a_framework, a_role
from tests.kubernetes.busy import busy_proxy, kubeconfig_for
from tests.kubernetes.conftest import Launch
from tests.kubernetes.world import World, a_task_pod

#: What the server asks for, in seconds.
PAUSE = 3
#: What comes closer together was sent before there was an answer.
AT_ONCE = 1.0


def test_pods_are_asked_for_again_when_the_pause_is_over_and_not_before(
    cluster: ControlPlane, account: User, world: World, launch: Launch, tmp_path: Path
) -> None:
    with busy_proxy(cluster) as proxy:
        proxy.busy = PAUSE
        launcher = launch(kubeconfig=kubeconfig_for(proxy.url, account.kubeconfig, tmp_path))
        # What one Framework is told holds for the other.
        world.submit(a_framework(a_role(tasks=4, pod=a_task_pod()), name="one"))
        world.until(lambda: proxy.pods or None, "a pod was asked for")
        world.submit(a_framework(a_role(tasks=1, pod=a_task_pod()), name="two"))
        world.until(lambda: _rounds(proxy.pods) > 2 or None, "it has been asked three times")
        proxy.busy = None
        world.until(lambda: len(world.pods()) == 5 or None, "all pods are there")
        asked = proxy.pods
        launcher.end()

    refused = [when for when, code in asked if code == 429]
    early = [
        pause for when in refused for later, _ in asked if AT_ONCE < (pause := later - when) < PAUSE - 0.1
    ]
    assert early == []
    assert sum(code == 201 for _, code in asked) == 5, "no pod was made twice"


def _rounds(asked: list[tuple[float, int]]) -> int:
    """How often the server was asked, not counting what was asked at once."""
    times = [when for when, _ in asked]
    return sum(later - earlier > AT_ONCE for earlier, later in pairwise([0.0, *times]))
