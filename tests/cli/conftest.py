"""What tests of commands share."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from aiohttp import web

from launcher.cli.main import main
from tests.cli.world import PATIENCE, World

Served = Callable[[web.Application, ssl.SSLContext | None], int]


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


@pytest.fixture
def served() -> Iterator[Served]:
    """Serve an application that is no launcher, on a free port."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    runners: list[web.AppRunner] = []

    async def start(app: web.Application, tls: ssl.SSLContext | None) -> int:
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0, ssl_context=tls).start()
        return int(runners[-1].addresses[0][1])

    yield lambda app, tls: asyncio.run_coroutine_threadsafe(start(app, tls), loop).result(PATIENCE)
    for runner in runners:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()


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
