"""Faults of the connection to kube-apiserver: the outcome of every request is determined."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.harness import ChaosHarness, memory, open_files
from tests.chaos.proxy import ForwardingMode, Proxy, kubeconfig_through, proxy_to
from tests.chaos.workloads import random_workload
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.eventually import until
from tests.kubernetes.conftest import Launch
from tests.kubernetes.launcher import KubeLauncher

#: More than the time after which a silent watch is closed.
SILENCE_SECONDS = 120.0


@pytest.fixture
def proxy(cluster: ControlPlane) -> Iterator[Proxy]:
    with proxy_to(cluster.url) as proxy:
        yield proxy


@pytest.fixture
def launcher(launch: Launch, proxy: Proxy, account: User, tmp_path: Path) -> Iterator[KubeLauncher]:
    """A launcher that connects only through the proxy."""
    launcher = launch(kubeconfig=kubeconfig_through(proxy, account.kubeconfig, tmp_path))
    launcher.ready()
    yield launcher
    proxy.mode = ForwardingMode.OPEN
    launcher.end()


@pytest.mark.timeout(240)
def test_watches_and_calls_are_resumed_after_broken_connections(
    harness: ChaosHarness, launcher: KubeLauncher, proxy: Proxy
) -> None:
    closed, memories, files = 0, [], []
    for number in range(4):
        harness.submit(random_workload(harness.random, f"c{number}"))
        for _ in range(10):
            harness.pause(0.6)
            closed += proxy.cut()
        harness.wait_for_completion(timeout_seconds=90)
        memories.append(memory(launcher))
        files.append(open_files(launcher))

    assert closed > 40, "watches and other connections were closed"
    assert memories[-1] < memories[0] * 1.15, memories
    # Idle connections are kept for half a minute.
    until(lambda: open_files(launcher) <= files[0] + 8 or None, f"no more open files than before: {files}")
    harness.check(launcher, responses_lost=True)


@pytest.mark.timeout(240)
def test_lost_responses_are_resolved_by_reading(
    harness: ChaosHarness, launcher: KubeLauncher, proxy: Proxy
) -> None:
    for number in range(3):
        harness.submit(random_workload(harness.random, f"d{number}"))
        for _ in range(4):
            harness.pause(0.4)
            proxy.mode = ForwardingMode.NO_RESPONSES
            harness.pause(1.0)
            proxy.mode = ForwardingMode.OPEN
            proxy.cut()
    harness.wait_for_completion(timeout_seconds=90)

    harness.check(launcher, responses_lost=True)


@pytest.mark.timeout(300)
def test_a_silent_connection_is_closed(harness: ChaosHarness, launcher: KubeLauncher, proxy: Proxy) -> None:
    harness.submit(random_workload(harness.random, "h0"))
    harness.pause(2.0)
    proxy.mode = ForwardingMode.FROZEN
    harness.pause(5.0)
    proxy.mode = ForwardingMode.OPEN  # for new connections; the old ones stay silent
    harness.submit(random_workload(harness.random, "h1"))
    harness.wait_for_completion(timeout_seconds=SILENCE_SECONDS)

    harness.check(launcher, responses_lost=True)


@pytest.mark.timeout(240)
def test_a_slow_connection_only_delays(harness: ChaosHarness, launcher: KubeLauncher, proxy: Proxy) -> None:
    proxy.mode = ForwardingMode.SLOW
    harness.submit(random_workload(harness.random, "s", rounds=2))
    started_at = time.monotonic()
    harness.wait_for_completion(timeout_seconds=90)

    assert time.monotonic() - started_at > 1, "the connection was slow"
    harness.check(launcher)
