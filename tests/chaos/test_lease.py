"""A stolen lease, and two simultaneous leaders."""

import pytest

from tests.chaos.harness import ChaosHarness
from tests.chaos.workloads import random_workload
from tests.eventually import until
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher


@pytest.mark.timeout(240)
def test_a_stolen_lease_stops_the_leader_until_it_is_released(
    harness: ChaosHarness, launcher: KubeLauncher
) -> None:
    for number in range(3):
        harness.submit(random_workload(harness.random, f"t{number}"))
        until(lambda: harness.lease_holder() or None, "a launcher leads")
        harness.pause(2.0)
        harness.set_lease_holder("other")
        until(lambda: terms_lost(launcher) > number or None, "the launcher observed it")  # noqa: B023 - called at once
        harness.pause(2.0)
        harness.release_lease()
    harness.wait_for_completion(timeout_seconds=90)

    harness.check(launcher)


@pytest.mark.timeout(240)
def test_two_simultaneous_leaders_duplicate_nothing(harness: ChaosHarness, launch: Launch) -> None:
    pair = [launch(), launch()]
    for number in range(6):
        leader = until(lambda: leader_of(harness, pair), "one of them leads")
        harness.submit(random_workload(harness.random, f"w{number}"))
        harness.pause(2.0)
        leader.pause()
        harness.release_lease()
        until(lambda: leader_of(harness, pair, exclude=leader), "the other one leads")  # noqa: B023 - called at once
        harness.pause(2.0)
        leader.resume()  # by its own clock, its term lasts for some more seconds
    harness.wait_for_completion(timeout_seconds=90)

    harness.check(*pair, two_leaders=True)


def leader_of(
    harness: ChaosHarness, pair: list[KubeLauncher], exclude: KubeLauncher | None = None
) -> KubeLauncher | None:
    """Returns the launcher that holds the lease."""
    holder = harness.lease_holder()
    log_line = f" leading lease='framework-launcher' identity='{holder}'"
    return next(
        (launcher for launcher in pair if launcher is not exclude and log_line in launcher.log()), None
    )


def terms_lost(launcher: KubeLauncher) -> int:
    return launcher.log().count("leadership lost")
