"""Real nodes with a launcher beside them, for all tests of this package; each keeps to a namespace of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.build import Kit, is_built, programs_of
from tests.cluster.conftest import namespace, programs
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.users import User
from tests.cluster.versions import chosen
from tests.kubernetes.conftest import account, define_frameworks, world
from tests.kubernetes.launcher import KubeLauncher
from tests.realnodes.bed import RealNodes
from tests.realnodes.prepare import lacking

__all__ = ["account", "bed", "cluster", "namespace", "programs", "shared_launcher", "world"]


@pytest.fixture(scope="package")
def node_programs() -> Path:
    """The directory with what runs on nodes; where there can be none, the tests are left out."""
    if reason := lacking():
        pytest.skip(f"left out the tests on real nodes: {reason}")
    if not is_built(chosen(), Kit.NODE):
        pytest.skip(f"kubelet {chosen()} is not built: make test-node does it, once")
    return programs_of(chosen(), Kit.NODE)


@pytest.fixture(scope="package")
def bed(programs: Path, node_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNodes]:
    """Two nodes that run what is theirs, and a control plane that knows Frameworks."""
    with RealNodes(tmp_path_factory.mktemp("bed"), programs, node_programs) as real_nodes:
        define_frameworks(real_nodes.plane)
        yield real_nodes


@pytest.fixture(scope="package")
def cluster(bed: RealNodes) -> ControlPlane:
    """Their control plane."""
    return bed.plane


@pytest.fixture(scope="module")
def shared_launcher(
    bed: RealNodes, account: User, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeLauncher]:
    """A launcher for all tests of a module, which listens where pods reach it; they leave it alone."""
    directory = tmp_path_factory.mktemp("launcher")
    proof = Authority(directory / "pki").server(bed.here)
    tls = ("--tls-cert", str(proof.certificate), "--tls-key", str(proof.key))
    launcher = KubeLauncher(directory, account.kubeconfig, "--listen", f"{bed.here}:0", *tls)
    yield launcher
    launcher.end()
