"""Stores over the launcher's own API, over a test's HTTP handler, and over a real API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aiohttp import web

from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.store.kubernetes.http_client import Timeouts
from launcher.store.kubernetes.kube_store import KubeStore
from tests.api.conftest import api_dependencies, memory_store, serving
from tests.store.kubernetes.faulty_proxy import FaultyProxy, faulty_proxy
from tests.store.kubernetes.real_api_server import BareApiServer, remove_all_objects

#: Short enough for tests that wait for them, long enough for a busy machine.
TIMEOUTS = Timeouts(connect=5.0, call=5.0, silence=5.0)


@asynccontextmanager
async def open_store(url: str, timeouts: Timeouts = TIMEOUTS) -> AsyncIterator[KubeStore]:
    """A store that uses the server at *url*."""
    store = await KubeStore.open(ClusterConfig(url, FixedHeader()), timeouts=timeouts)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def backing_store() -> MemoryStore:
    """The store of the server, for direct access."""
    return memory_store()


@pytest.fixture
async def proxy(backing_store: MemoryStore) -> AsyncIterator[FaultyProxy]:
    """A proxy to the launcher's own API, which responds like kube-apiserver and starts quickly."""
    async with serving(api_dependencies(backing_store)) as api, faulty_proxy(api.url) as to_api:
        yield to_api


@pytest.fixture
async def kube_store(proxy: FaultyProxy) -> AsyncIterator[KubeStore]:
    """A store that uses the proxy."""
    async with open_store(proxy.url) as store:
        yield store


HttpHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ServedStore = Callable[[HttpHandler], AbstractAsyncContextManager[KubeStore]]


@pytest.fixture
def served_by() -> ServedStore:
    """Returns a store over a server whose handler is a function of the test."""

    @asynccontextmanager
    async def served_store(handler: HttpHandler) -> AsyncIterator[KubeStore]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            async with open_store(f"http://127.0.0.1:{runner.addresses[0][1]}") as store:
                yield store
        finally:
            await runner.cleanup()

    return served_store


@pytest.fixture
async def crd_store(bare_api_server: BareApiServer) -> AsyncIterator[KubeStore]:
    """The store over a real API server with the CRD of Frameworks."""
    bare_api_server.apply_framework_crd()
    store = await KubeStore.open(bare_api_server.access(), timeouts=TIMEOUTS)
    try:
        yield store
    finally:
        await remove_all_objects(store)
        await store.close()
