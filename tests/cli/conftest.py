"""Fixtures of the tests of commands."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from aiohttp import web

from launcher.cli.main import main
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.eventually import TIMEOUT_SECONDS

Served = Callable[[web.Application, ssl.SSLContext | None], int]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryLauncher]:
    """A launcher, set as the server of all commands."""
    launcher = InMemoryLauncher()
    monkeypatch.setenv("LAUNCHER_SERVER", launcher.url)
    yield launcher
    launcher.close()


@pytest.fixture
def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture
def served() -> Iterator[Served]:
    """Serves applications on free ports."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    runners: list[web.AppRunner] = []

    async def start(app: web.Application, tls: ssl.SSLContext | None) -> int:
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0, ssl_context=tls).start()
        return int(runners[-1].addresses[0][1])

    yield lambda app, tls: asyncio.run_coroutine_threadsafe(start(app, tls), loop).result(TIMEOUT_SECONDS)
    for runner in runners:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(TIMEOUT_SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(TIMEOUT_SECONDS)
    loop.close()


class BackgroundCommand:
    """A command that runs in a thread."""

    def __init__(self, *arguments: str) -> None:
        self._codes: list[int] = []
        self._thread = Thread(target=lambda: self._codes.append(main(arguments)))
        self._thread.start()

    def end(self) -> int:
        """Wait until the command exits. Returns its exit code."""
        self._thread.join(TIMEOUT_SECONDS)
        assert self._codes, "the command is still running"
        return self._codes[0]
