"""A server for each module, and an isolated namespace and clients for each test."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.isolated_namespace import IsolatedNamespace
from tests.clients.kubectl import Kubectl
from tests.local.server import Server

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher that the tests of one module share."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def isolated(server: Server, tmp_path: Path) -> IsolatedNamespace:
    """An empty namespace."""
    gate = tmp_path / "gate"
    gate.mkdir()
    return IsolatedNamespace(server, f"test-{next(_numbers)}", gate)


@pytest.fixture(scope="module")
def kubectl_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The discovery cache of kubectl for the module's server."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(
    isolated: IsolatedNamespace, programs: Path, tmp_path: Path, kubectl_cache: Path
) -> Iterator[Kubectl]:
    """The kubectl of the chosen version, in the test's namespace."""
    home = tmp_path / "home"
    home.mkdir()
    kubectl = Kubectl(programs / "kubectl", isolated.server.url, isolated.namespace, home, kubectl_cache)
    yield kubectl
    kubectl.end()
