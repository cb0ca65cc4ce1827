"""The launcher may be killed at any moment: no task is lost, duplicated or run again."""

import pytest

from tests.chaos.harness import ChaosHarness
from tests.chaos.workloads import random_workload
from tests.eventually import until
from tests.kubernetes.launcher import KubeLauncher

KILLS = 50


@pytest.mark.timeout(400)
def test_a_launcher_killed_fifty_times_loses_and_duplicates_nothing(
    harness: ChaosHarness, launcher: KubeLauncher
) -> None:
    for number in range(KILLS):
        if number % 6 == 0:
            harness.submit(random_workload(harness.random, f"k{number}"))
        if harness.random.random() < 0.7:  # others are killed before they have started
            until(lambda: is_leader(launcher) or None, "the launcher leads")
        harness.pause(1.0)
        launcher.kill()
        harness.release_lease()
        launcher.start()
    harness.wait_for_completion(timeout_seconds=90)

    harness.check(launcher)


def is_leader(launcher: KubeLauncher) -> bool:
    return "\nlauncher_leader 1" in launcher.curl("/metrics")
