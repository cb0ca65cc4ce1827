"""Real nodes and a launcher for all tests of this package, each in its own namespace."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.build import Kit, programs_of
from tests.cluster.conftest import namespace
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.users import User
from tests.cluster.versions import chosen
from tests.kubernetes.conftest import account, define_frameworks, ns
from tests.kubernetes.launcher import KubeLauncher
from tests.realnodes.bed import RealNodes
from tests.realnodes.prepare import missing_requirement

__all__ = ["account", "bed", "cluster", "namespace", "ns", "shared_launcher"]


@pytest.fixture(scope="package")
def node_programs() -> Path:
    """The directory with the programs of nodes; skips the tests where nodes cannot run."""
    if reason := missing_requirement():
        pytest.skip(f"left out the tests on real nodes: {reason}")
    return programs_of(chosen(), Kit.NODE)


@pytest.fixture(scope="package")
def bed(programs: Path, node_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNodes]:
    """A control plane with the Framework CRD, and two nodes."""
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
    """A launcher for all tests of a module, at an address that pods can reach."""
    directory = tmp_path_factory.mktemp("launcher")
    proof = Authority(directory / "pki").server(bed.host_address)
    tls = ("--tls-cert", str(proof.certificate), "--tls-key", str(proof.key))
    launcher = KubeLauncher(directory, account.kubeconfig, "--listen", f"{bed.host_address}:0", *tls)
    yield launcher
    launcher.end()
