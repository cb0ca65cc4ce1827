"""Promise: with --metrics-auth, a cluster's launcher shows /metrics only to callers whom the cluster lets get it."""

import pytest
from aiohttp import web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.doors import door_to
from tests.api.proxy.upstream import api_server


@pytest.mark.parametrize(
    ("header", "authenticated", "allowed", "expected"),
    [
        pytest.param("Bearer known", True, True, 200, id="known and allowed"),
        pytest.param("Bearer known", True, False, 403, id="known, not allowed"),
        pytest.param("Bearer stranger", False, True, 401, id="unknown token"),
        pytest.param("", True, True, 401, id="no token"),
    ],
)
async def test_the_cluster_decides_who_reads_the_metrics(
    header: str, authenticated: bool, allowed: bool, expected: int
) -> None:
    async def answer(request: web.Request) -> web.Response:
        status = {"authenticated": authenticated, "allowed": allowed, "user": {"username": "someone"}}
        return web.json_response({"status": status}, status=201)

    async with api_server() as cluster:
        cluster.answer = answer
        access = ClusterConfig(cluster.url, FixedHeader("Bearer of-the-launcher"))
        async with door_to(access, metrics_auth=True) as launcher:
            found = await launcher.get("/metrics", Authorization=header)

    assert found.status == expected
    assert (b"launcher_http" in found.body) is (expected == 200)
