"""The lease may be stolen, and two launchers may believe that they lead: together they do what one would."""

import pytest

from tests.chaos.load import load
from tests.chaos.scene import Scene
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher
from tests.local.server import until


@pytest.mark.timeout(240)
def test_a_stolen_lease_ends_the_work_until_it_is_free_again(scene: Scene, launcher: KubeLauncher) -> None:
    for number in range(3):
        scene.submit(load(scene.chance, f"t{number}"))
        until(lambda: scene.holder() or None, "somebody leads")
        scene.moment(2.0)
        scene.hand_lease("thief")
        until(lambda: lost(launcher) > number or None, "it knows")  # noqa: B023 - called at once
        scene.moment(2.0)
        scene.free_lease()
    scene.settled(within=90)

    scene.check(launcher)


@pytest.mark.timeout(240)
def test_two_that_lead_at_the_same_time_double_nothing(scene: Scene, launch: Launch) -> None:
    pair = [launch(), launch()]
    for number in range(6):
        leader = until(lambda: leading(scene, pair), "one of them leads")
        scene.submit(load(scene.chance, f"w{number}"))
        scene.moment(2.0)
        leader.pause()
        scene.free_lease()
        until(lambda: leading(scene, pair, but=leader), "the other one leads")  # noqa: B023 - called at once
        scene.moment(2.0)
        leader.resume()  # it has the lease for some seconds more, as far as it knows
    scene.settled(within=90)

    scene.check(*pair, two_lead=True)


def leading(scene: Scene, pair: list[KubeLauncher], but: KubeLauncher | None = None) -> KubeLauncher | None:
    """The one whose lease it is."""
    holder = scene.holder()
    said = f" leading lease='framework-launcher' identity='{holder}'"
    return next((each for each in pair if each is not but and said in each.log()), None)


def lost(launcher: KubeLauncher) -> int:
    return launcher.log().count("leadership lost")
