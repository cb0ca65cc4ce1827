"""One control plane for each test worker, and a namespace for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlplane import ControlPlane


@pytest.fixture(scope="session")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with ten nodes, shared by all tests of a worker, each of which uses its own namespace."""
    with ControlPlane(tmp_path_factory.mktemp("cluster"), programs) as control_plane:
        yield control_plane


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """The name of an empty namespace, which is deleted after the test."""
    name = cluster.new_namespace()
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}")
