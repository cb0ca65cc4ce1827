"""A running API server for every test, on a free port, with an empty store behind it."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from launcher.api.app import ApiDependencies, make_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.access_guard import LOOPBACK, Guard
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_limits import RequestLimits
from launcher.api.system_endpoints import Health
from launcher.core.errors import NotFound
from launcher.core.pods.log_options import PodLogOptions
from launcher.core.validation.admission_policy import Policy
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.watch_cache import WatchCache
from tests.api.client import Client


class NoLogs:
    """A machine on which no container has written anything."""

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        return ()

    def uid_before(self, namespace: str, pod: str, uid: str | None) -> str | None:
        return None

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, view: PodLogOptions
    ) -> AsyncIterator[bytes]:
        for _ in self.containers(namespace, pod, uid):
            yield b""
        raise NotFound(f"{pod} has no log")


class Api(Client):
    """A client of a server in this process, whose store can be reached past it."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, parts: ApiDependencies, runner: web.AppRunner
    ) -> None:
        super().__init__(session, url)
        assert isinstance(parts.store, EmbeddedStore)
        self.parts, self.store, self._runner = parts, parts.store, runner

    def is_connected(self, port: int) -> bool:
        """Whether the server still holds the connection that comes from that port."""
        server = self._runner.server
        assert server is not None
        transports = [connection.transport for connection in server.connections]
        return any(each and each.get_extra_info("peername")[1] == port for each in transports)


def uids() -> Callable[[], str]:
    """Uids one after another."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


def memory_store(**bounds: Any) -> MemoryStore:
    """An empty store; *bounds* are those of its history."""
    return MemoryStore(time.time, uids(), WatchCache(**bounds))


def parts_of(store: EmbeddedStore, **others: Any) -> ApiDependencies:
    """Everything that an API needs, around *store*."""
    given: dict[str, Any] = {
        "store": store,
        "logs": NoLogs(),
        "guard": Guard(LOOPBACK),
        "limits": RequestLimits(),
        "policy": Policy(),
        "metrics": Metrics(store),
        "health": Health({}),
        "clock": time.time,
    }
    return ApiDependencies(**(given | others))


@asynccontextmanager
async def serving(parts: ApiDependencies) -> AsyncIterator[Api]:
    """A server of these parts, and its client."""
    runner = make_runner(make_app(parts), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"User-Agent": "launcher-tests"}
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, auto_decompress=False
        ) as session:
            yield Api(session, url, parts, runner)
    finally:
        await runner.cleanup()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A running server on an empty store in memory."""
    async with serving(parts_of(memory_store())) as running:
        yield running
