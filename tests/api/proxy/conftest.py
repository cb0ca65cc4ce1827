"""A front door to a stand-in for a cluster, whose launcher has credentials that nobody may get hold of."""

from collections.abc import AsyncIterator

import pytest

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.doors import Door, door_to
from tests.api.proxy.upstream import ApiServer, api_server

OWN = "Bearer of-the-launcher"


@pytest.fixture
async def cluster() -> AsyncIterator[ApiServer]:
    """The stand-in."""
    async with api_server() as server:
        yield server


@pytest.fixture
async def door(cluster: ApiServer) -> AsyncIterator[Door]:
    """The way to it."""
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN))) as running:
        yield running
