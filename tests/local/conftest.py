"""Launchers that are ended with their test, whatever becomes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.local.server import Server


class Serve(Protocol):
    def __call__(
        self, *flags: str, module: str = "launcher", under: tuple[str, ...] = (), at: Path | None = None
    ) -> Server: ...


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a launcher with these flags, whose data is *at* a place of the test's choice if it has one."""
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
