"""A control plane for this package alone, which tests may damage."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.chaos.harness import ChaosHarness
from tests.chaos.history import READABLE_ETCD_FLAGS
from tests.cluster.components import Component
from tests.cluster.conftest import namespace
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.conftest import account, define_frameworks, launch, launcher

__all__ = ["account", "cluster", "harness", "launch", "launcher", "namespace", "random"]


@pytest.fixture(scope="package")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with ten nodes and the Framework CRD, whose etcd can be read."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("cluster"), programs)
    control_plane.add_flags(Component.APISERVER, *READABLE_ETCD_FLAGS)
    with control_plane:
        define_frameworks(control_plane)
        yield control_plane


@pytest.fixture
def random() -> Random:
    """A new seed each time; ``CHAOS_SEED`` repeats a run."""
    seed = os.environ.get("CHAOS_SEED") or secrets.token_hex(4)
    print(f"to repeat this run: CHAOS_SEED={seed}")  # printed when the test fails
    return Random(seed)


@pytest.fixture
def harness(cluster: ControlPlane, namespace: str, random: Random) -> ChaosHarness:
    """An empty namespace."""
    return ChaosHarness(cluster, namespace, random)
