"""Launchers in local mode that use a container engine."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.engine.engines import EngineProcess
from tests.local.server import Server

#: Starts a launcher that uses the engine, with more flags.
ServeWith = Callable[..., Server]


@pytest.fixture
def serve_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServeWith]:
    """Launchers that are ended with their test, with all containers of their engines."""
    servers: list[Server] = []
    used: list[EngineProcess] = []

    def start(engine: EngineProcess, *flags: str, under: Sequence[str] = ()) -> Server:
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        directory = tmp_path / f"server{len(servers)}"
        directory.mkdir()
        used.append(engine)
        servers.append(Server(directory, "--runtime=docker", *flags, under=under))
        return servers[-1]

    yield start
    for server in servers:
        server.end()
    for engine in used:
        engine.remove_containers()
