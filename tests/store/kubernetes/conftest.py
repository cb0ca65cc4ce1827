"""A server that speaks as a cluster's API server does, and the store over it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from aiohttp import web

from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.store.kubernetes.http_client import Timeouts
from launcher.store.kubernetes.kube_store import KubeStore
from tests.api.conftest import memory_store, parts_of, serving
from tests.store.kubernetes.proxy import Proxy, proxied
from tests.store.kubernetes.quiet import Quiet, empty

#: Short enough for a test that waits to the end, long enough for a busy machine.
PATIENCE = Timeouts(connect=5.0, call=5.0, silence=5.0)


@asynccontextmanager
async def opened(url: str, patience: Timeouts = PATIENCE) -> AsyncIterator[KubeStore]:
    """A store over the server at *url*."""
    store = await KubeStore.open(ClusterConfig(url, FixedHeader()), patience=patience)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def behind() -> MemoryStore:
    """What stands behind the server, to be looked at past it."""
    return memory_store()


@pytest.fixture
async def line(behind: MemoryStore) -> AsyncIterator[Proxy]:
    """The line to a server of ours: it answers as a cluster's, and is there in no time."""
    async with serving(parts_of(behind)) as api, proxied(api.url) as proxy:
        yield proxy


@pytest.fixture
async def kube(line: Proxy) -> AsyncIterator[KubeStore]:
    """The store over that line."""
    async with opened(line.url) as store:
        yield store


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answering = Callable[[Answer], AbstractAsyncContextManager[KubeStore]]


@pytest.fixture
def answering() -> Answering:
    """A store over a server that answers everything with one function."""

    @asynccontextmanager
    async def answered(answer: Answer) -> AsyncIterator[KubeStore]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            async with opened(f"http://127.0.0.1:{runner.addresses[0][1]}") as store:
                yield store
        finally:
            await runner.cleanup()

    return answered


@pytest.fixture
async def cluster(quiet: Quiet) -> AsyncIterator[KubeStore]:
    """The store over a real API server that knows what a Framework is."""
    quiet.define_frameworks()
    store = await KubeStore.open(quiet.access(), patience=PATIENCE)
    try:
        yield store
    finally:
        await empty(store)
        await store.close()
