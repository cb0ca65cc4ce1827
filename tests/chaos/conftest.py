"""A control plane of this package's own, to which anything may be done, and the load that it bears meanwhile."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.chaos.history import LEGIBLE
from tests.chaos.scene import Scene
from tests.cluster.conftest import namespace, programs
from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.kubernetes.conftest import account, define_frameworks, launch, launcher

__all__ = ["account", "chance", "cluster", "launch", "launcher", "namespace", "programs", "scene"]


@pytest.fixture(scope="package")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with ten nodes that knows Frameworks, whose etcd can be read."""
    control_plane = ControlPlane(tmp_path_factory.mktemp("cluster"), programs)
    control_plane.tell(Part.APISERVER, *LEGIBLE)
    with control_plane:
        define_frameworks(control_plane)
        yield control_plane


@pytest.fixture
def chance() -> Random:
    """Another one each time; ``CHAOS_SEED`` makes the same choices again."""
    seed = os.environ.get("CHAOS_SEED") or secrets.token_hex(4)
    print(f"to choose the same again: CHAOS_SEED={seed}")  # seen when the test fails
    return Random(seed)


@pytest.fixture
def scene(cluster: ControlPlane, namespace: str, chance: Random) -> Scene:
    """An empty namespace."""
    return Scene(cluster, namespace, chance)
