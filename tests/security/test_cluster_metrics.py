"""With --metrics-auth, /metrics is served only to clients that the cluster authorizes."""

import pytest
from aiohttp import web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.fake_api_server import run_fake_api_server
from tests.api.proxy.proxies import run_proxy


@pytest.mark.parametrize(
    ("header", "authenticated", "allowed", "expected"),
    [
        pytest.param("Bearer known", True, True, 200, id="authenticated and authorized"),
        pytest.param("Bearer known", True, False, 403, id="authenticated, not authorized"),
        pytest.param("Bearer stranger", False, True, 401, id="unknown token"),
        pytest.param("", True, True, 401, id="no token"),
    ],
)
async def test_access_to_the_metrics_is_authorized_by_the_cluster(
    header: str, authenticated: bool, allowed: bool, expected: int
) -> None:
    async def review(request: web.Request) -> web.Response:
        status = {"authenticated": authenticated, "allowed": allowed, "user": {"username": "prometheus"}}
        return web.json_response({"status": status}, status=201)

    async with run_fake_api_server() as cluster:
        cluster.answer = review
        access = ClusterConfig(cluster.url, FixedHeader("Bearer of-the-launcher"))
        async with run_proxy(access, metrics_auth=True) as launcher:
            found = await launcher.get("/metrics", Authorization=header)

    assert found.status == expected
    assert (b"launcher_http" in found.body) is (expected == 200)
