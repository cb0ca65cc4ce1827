"""One control plane for each test worker, and a namespace for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.build import is_built, programs_of
from tests.cluster.controlplane import ControlPlane
from tests.cluster.versions import chosen


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory with the programs of Kubernetes; as long as they are not built, the tests that need them wait."""
    if not is_built(chosen()):
        pytest.skip(f"the programs of Kubernetes {chosen()} are not built: make test-cluster does it, once")
    return programs_of(chosen())


@pytest.fixture(scope="session")
def cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with ten nodes, shared by all tests of a worker: each keeps to a namespace of its own."""
    with ControlPlane(tmp_path_factory.mktemp("cluster"), programs) as control_plane:
        yield control_plane


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """The name of an empty namespace, which goes with the test and all that is in it."""
    name = cluster.new_namespace()
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}")
