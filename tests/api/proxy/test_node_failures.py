"""Recent failures per node through the proxy: for callers who may list Frameworks in all namespaces."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from launcher.api.resources.node_failures import PATH, NodeFailureIndex
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.conftest import memory_store
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.api.proxy.test_preview import reviewing


@pytest.fixture
async def proxy(cluster: FakeApiServer) -> AsyncIterator[ProxyClient]:
    """A client of a proxy with an index of failures."""
    index = NodeFailureIndex(memory_store())
    task = asyncio.create_task(index.run())
    access = ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))
    try:
        async with run_proxy(access, node_failures=index) as running:
            yield running
    finally:
        task.cancel()


async def test_a_caller_who_may_list_all_frameworks_gets_the_failures(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = reviewing(allowed=True)

    response = await proxy.get(PATH)

    assert (response.status, response.json()["items"]) == (200, [])
    (review,) = cluster.requests
    assert review.headers["Authorization"] == TOKEN
    assert orjson.loads(review.body)["spec"]["resourceAttributes"] == {
        "verb": "list",
        "group": "launcher.microsoft.com",
        "resource": "frameworks",
    }


async def test_other_callers_are_rejected(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = reviewing(allowed=False)

    response = await proxy.get(PATH)

    assert "list frameworks" in response.failure(403, "Forbidden")["message"]


async def test_an_error_of_the_review_is_that_of_the_request(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = reviewing(allowed=False, code=401)

    assert (await proxy.get(PATH)).status == 401
