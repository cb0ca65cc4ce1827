"""Launchers that are ended with their test, even if it fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.clients.kubectl import Kubectl
from tests.local.server import Server


class Serve(Protocol):
    def __call__(
        self, *flags: str, module: str = "launcher", under: tuple[str, ...] = (), at: Path | None = None
    ) -> Server: ...


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts launchers with the given flags, with their data in the directory *at* or a new one."""
    servers: list[Server] = []

    def start(
        *flags: str, module: str = "launcher", under: tuple[str, ...] = (), at: Path | None = None
    ) -> Server:
        directory = at or tmp_path / f"server{len(servers)}"
        directory.mkdir(exist_ok=True)
        servers.append(Server(directory, *flags, module=module, under=under))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture
def kubectl(server: Server, programs: Path, tmp_path: Path) -> Iterator[Kubectl]:
    """The kubectl of the chosen version, for the module's server."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    kubectl = Kubectl(programs / "kubectl", server.url, "default", home, home / "cache")
    yield kubectl
    kubectl.end()
