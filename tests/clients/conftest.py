"""A server for each module, and for each test a namespace of its own there and the clients that it asks for."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.kubectl import HOW_TO_GET_IT, Kubectl, installed
from tests.clients.space import Space
from tests.local.server import Server

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher that the tests of one module share."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def space(server: Server, tmp_path: Path) -> Space:
    """An empty namespace."""
    gate = tmp_path / "gate"
    gate.mkdir()
    return Space(server, f"test-{next(_numbers)}", gate)


@pytest.fixture(scope="module")
def kubectl_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kubectl keeps what it has learnt about the module's server."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(space: Space, tmp_path: Path, kubectl_cache: Path) -> Iterator[Kubectl]:
    """The kubectl that a user of this machine gets, in the test's namespace."""
    programs = installed()
    if not programs:
        pytest.skip(HOW_TO_GET_IT)
    home = tmp_path / "home"
    home.mkdir()
    kubectl = Kubectl(programs[0], space.server.url, space.namespace, home, kubectl_cache)
    yield kubectl
    kubectl.end()
