"""Outages of kube-apiserver and etcd: interrupted work is continued."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.harness import ChaosHarness
from tests.chaos.workloads import random_workload
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.launcher import KubeLauncher

#: More than the renew deadline of a leader.
TERM_END_SECONDS = 12.0


@pytest.mark.timeout(240)
def test_a_restart_of_the_api_server_loses_and_duplicates_nothing(
    harness: ChaosHarness, launcher: KubeLauncher
) -> None:
    end_functions = [harness.cluster.kill, harness.cluster.terminate, harness.cluster.kill]
    harness.random.shuffle(end_functions)

    for number, end in enumerate(end_functions):
        harness.submit(random_workload(harness.random, f"a{number}"))
        harness.pause(2.0)
        with no_scheduler(harness.cluster):
            end(Component.APISERVER)
            harness.pause(2.0)
            harness.cluster.restart(Component.APISERVER)
    harness.wait_for_completion(timeout_seconds=90)

    harness.check(launcher)


@pytest.mark.timeout(240)
def test_a_suspended_etcd_loses_and_duplicates_nothing(harness: ChaosHarness, launcher: KubeLauncher) -> None:
    pauses = [1.0, 4.0, TERM_END_SECONDS]
    harness.random.shuffle(pauses)

    for number, pause in enumerate(pauses):
        harness.submit(random_workload(harness.random, f"e{number}"))
        harness.pause(2.0)
        with no_scheduler(harness.cluster), harness.cluster.paused(Component.ETCD):
            time.sleep(pause)  # the duration of the outage
    harness.wait_for_completion(timeout_seconds=90)

    harness.check(launcher)


@contextmanager
def no_scheduler(cluster: ControlPlane) -> Iterator[None]:
    """
    Stops the scheduler for the block.

    If the response to a binding is lost, kube-scheduler may bind the pod again, find its cache inconsistent, and
    exit.
    """
    cluster.kill(Component.SCHEDULER)
    yield
    cluster.restart(Component.SCHEDULER)
