"""A running API server with an empty store for every test, on a free port."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from launcher.api.app import ApiDependencies, make_app
from launcher.api.http.server import make_runner
from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.api.middleware.metrics import Metrics
from launcher.api.middleware.request_limits import RequestLimits
from launcher.api.system_endpoints import Health
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.node.agent.container_exec import ContainerExec
from launcher.node.agent.pod_ports import PodPorts
from launcher.node.agent.usage_monitor import UsageMonitor
from launcher.node.network.pod_network import SharedPodNetwork
from launcher.node.services.endpoint_slices import endpoint_slices, endpoints_object
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.informer import SharedInformers
from launcher.store.interface import ENDPOINT_SLICES, ENDPOINTS
from launcher.store.service_store import ServiceStore
from tests.api.client import Client
from tests.in_memory_logs import InMemoryLogs
from tests.node.fake_runtime import FakeRuntime
from tests.store.builders import uids


class Api(Client):
    """A client of a server in this process, with direct access to its store."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, parts: ApiDependencies, runner: web.AppRunner
    ) -> None:
        super().__init__(session, url)
        assert isinstance(parts.store, EmbeddedStore)
        self.parts, self.store, self._runner = parts, parts.store, runner

    def is_reading(self) -> bool:
        """Whether the server reads from all connections."""
        server = self._runner.server
        assert server is not None
        transports = [connection.transport for connection in server.connections]
        return all(isinstance(each, asyncio.Transport) and each.is_reading() for each in transports)

    def is_connected(self, port: int) -> bool:
        """Whether the server still has the connection from that port."""
        server = self._runner.server
        assert server is not None
        transports = [connection.transport for connection in server.connections]
        return any(each and each.get_extra_info("peername")[1] == port for each in transports)


def memory_store(**bounds: Any) -> MemoryStore:
    """An empty store; *bounds* are those of its history."""
    return MemoryStore(time.time, uids(), WatchCache(**bounds))


def api_dependencies(store: EmbeddedStore, **others: Any) -> ApiDependencies:
    """Everything that an API needs, around *store*."""
    given: dict[str, Any] = {
        "store": store,
        "services": ServiceStore(store, SharedPodNetwork.cluster_ips),
        "logs": InMemoryLogs(),
        "exec_sessions": ContainerExec(FakeRuntime(time.time)),
        "read_usage": UsageMonitor(FakeRuntime(time.time), time.time).read,
        "compute_endpoints": {ENDPOINT_SLICES: endpoint_slices, ENDPOINTS: endpoints_object},
        "connect_to_pod": PodPorts(SharedPodNetwork()).connect,
        "guard": AccessGuard(LOOPBACK),
        "limits": RequestLimits(),
        "policy": AdmissionPolicy(),
        "metrics": Metrics(SharedInformers(store)),
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
    async with serving(api_dependencies(memory_store())) as running:
        yield running
