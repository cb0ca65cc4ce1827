"""The launcher may be killed at any moment: no task is lost, doubled or run again."""

import pytest

from tests.chaos.load import load
from tests.chaos.scene import Scene
from tests.kubernetes.launcher import KubeLauncher
from tests.local.server import until

KILLS = 50


@pytest.mark.timeout(400)
def test_killed_fifty_times_it_loses_and_doubles_nothing(scene: Scene, launcher: KubeLauncher) -> None:
    for number in range(KILLS):
        if number % 6 == 0:
            scene.submit(load(scene.chance, f"k{number}"))
        if scene.chance.random() < 0.7:  # the others die before they have begun
            until(lambda: leads_now(launcher) or None, "it leads")
        scene.moment(1.0)
        launcher.kill()
        scene.free_lease()
        launcher.start()
    scene.settled(within=90)

    scene.check(launcher)


def leads_now(launcher: KubeLauncher) -> bool:
    return "\nlauncher_leader 1" in launcher.curl("/metrics")
