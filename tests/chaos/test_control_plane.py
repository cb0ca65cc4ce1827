"""kube-apiserver and etcd may go away for a while: what the launcher had under way is settled, and all goes on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.load import load
from tests.chaos.scene import Scene
from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.kubernetes.launcher import KubeLauncher

#: Seconds after which whoever led has given up the lease, and more.
TERM_OVER = 12.0


@pytest.mark.timeout(240)
def test_an_api_server_that_is_killed_or_restarted_loses_and_doubles_nothing(
    scene: Scene, launcher: KubeLauncher
) -> None:
    ways = [scene.cluster.kill, scene.cluster.terminate, scene.cluster.kill]
    scene.chance.shuffle(ways)

    for number, end in enumerate(ways):
        scene.submit(load(scene.chance, f"a{number}"))
        scene.moment(2.0)
        with no_scheduler(scene.cluster):
            end(Part.APISERVER)
            scene.moment(2.0)
            scene.cluster.restart(Part.APISERVER)
    scene.settled(within=90)

    scene.check(launcher)


@pytest.mark.timeout(240)
def test_an_etcd_that_stands_still_loses_and_doubles_nothing(scene: Scene, launcher: KubeLauncher) -> None:
    pauses = [1.0, 4.0, TERM_OVER]
    scene.chance.shuffle(pauses)

    for number, pause in enumerate(pauses):
        scene.submit(load(scene.chance, f"e{number}"))
        scene.moment(2.0)
        with no_scheduler(scene.cluster), scene.cluster.paused(Part.ETCD):
            time.sleep(pause)  # so long it lasts
    scene.settled(within=90)

    scene.check(launcher)


@contextmanager
def no_scheduler(cluster: ControlPlane) -> Iterator[None]:
    """
    Inside, there is none.

    When the answer to a binding is lost, the scheduler of Kubernetes may bind the pod again, find that its memory is
    wrong, and end itself.
    """
    cluster.kill(Part.SCHEDULER)
    yield
    cluster.restart(Part.SCHEDULER)
