"""What tests of commands share."""

import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from launcher.cli.main import main
from tests.cli.world import PATIENCE, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A launcher that commands talk to unless they are told otherwise."""
    made = World()
    monkeypatch.setenv("LAUNCHER_SERVER", made.url)
    yield made
    made.close()


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Command:
    """A command under way in a thread, so that the test can do something meanwhile."""

    def __init__(self, *arguments: str) -> None:
        self._codes: list[int] = []
        self._thread = Thread(target=lambda: self._codes.append(main(arguments)))
        self._thread.start()

    def end(self) -> int:
        """Its exit code, once it has one."""
        self._thread.join(PATIENCE)
        assert self._codes, "it goes on"
        return self._codes[0]
