"""A proxy to a fake API server; the launcher has credentials that must not be used for callers."""

from collections.abc import AsyncIterator

import pytest

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.fake_api_server import FakeApiServer, run_fake_api_server
from tests.api.proxy.proxies import ProxyClient, run_proxy

LAUNCHER_CREDENTIALS = "Bearer of-the-launcher"


@pytest.fixture
async def cluster() -> AsyncIterator[FakeApiServer]:
    """The fake API server."""
    async with run_fake_api_server() as server:
        yield server


@pytest.fixture
async def proxy(cluster: FakeApiServer) -> AsyncIterator[ProxyClient]:
    """A client of the proxy."""
    async with run_proxy(ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))) as running:
        yield running
