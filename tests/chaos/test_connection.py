"""The way to kube-apiserver may be cut, deaf, silent or slow: what became of a request is found out."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.load import load
from tests.chaos.proxy import Proxy, Way, kubeconfig_by, proxy_to
from tests.chaos.scene import Scene, memory, open_files
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.local.server import until

#: Seconds after which a launcher takes a watch for dead on which nothing comes, and more.
NOTICED = 120.0


@pytest.fixture
def proxy(cluster: ControlPlane) -> Iterator[Proxy]:
    with proxy_to(cluster.url) as proxy:
        yield proxy


@pytest.fixture
def launcher(launch: Launch, proxy: Proxy, account: User, tmp_path: Path) -> Iterator[KubeLauncher]:
    """One that knows no other way to the cluster."""
    launcher = launch(kubeconfig=kubeconfig_by(proxy, account.kubeconfig, tmp_path))
    launcher.ready()
    yield launcher
    proxy.way = Way.OPEN
    launcher.end()


@pytest.mark.timeout(240)
def test_watches_and_calls_that_are_cut_again_and_again_are_taken_up(
    scene: Scene, launcher: KubeLauncher, proxy: Proxy
) -> None:
    cut, memories, files = 0, [], []
    for number in range(4):
        scene.submit(load(scene.chance, f"c{number}"))
        for _ in range(10):
            scene.moment(0.6)
            cut += proxy.cut()
        scene.settled(within=90)
        memories.append(memory(launcher))
        files.append(open_files(launcher))

    assert cut > 40, "there is a watch to cut, and more"
    assert memories[-1] < memories[0] * 1.15, memories
    # Connections that nobody uses are kept for half a minute.
    until(lambda: open_files(launcher) <= files[0] + 8 or None, f"no file is left open, beside {files}")
    scene.check(launcher, answers_lost=True)


@pytest.mark.timeout(240)
def test_answers_that_are_lost_are_looked_up(scene: Scene, launcher: KubeLauncher, proxy: Proxy) -> None:
    for number in range(3):
        scene.submit(load(scene.chance, f"d{number}"))
        for _ in range(4):
            scene.moment(0.4)
            proxy.way = Way.DEAF
            scene.moment(1.0)
            proxy.way = Way.OPEN
            proxy.cut()
    scene.settled(within=90)

    scene.check(launcher, answers_lost=True)


@pytest.mark.timeout(300)
def test_a_connection_on_which_nothing_comes_is_given_up(
    scene: Scene, launcher: KubeLauncher, proxy: Proxy
) -> None:
    scene.submit(load(scene.chance, "h0"))
    scene.moment(2.0)
    proxy.way = Way.FROZEN
    scene.moment(5.0)
    proxy.way = Way.OPEN  # for new connections; the old ones are as dead as before
    scene.submit(load(scene.chance, "h1"))
    scene.settled(within=NOTICED)

    scene.check(launcher, answers_lost=True)


@pytest.mark.timeout(240)
def test_on_a_slow_way_it_is_slow_and_nothing_else(
    scene: Scene, launcher: KubeLauncher, proxy: Proxy
) -> None:
    proxy.way = Way.SLOW
    scene.submit(load(scene.chance, "s", rounds=2))
    began = time.monotonic()
    scene.settled(within=90)

    assert time.monotonic() - began > 1, "it was slow"
    scene.check(launcher)
