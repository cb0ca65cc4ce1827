"""``/metrics`` of the proxy with authentication."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import ProxyClient, run_proxy

USER = {"username": "prometheus", "uid": "u", "groups": ["monitoring"], "extra": {"scopes": ["a"]}}


@pytest.fixture
async def guarded(cluster: FakeApiServer) -> AsyncIterator[ProxyClient]:
    async with run_proxy(
        ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), metrics_auth=True
    ) as running:
        yield running


def reviews(
    cluster: FakeApiServer, *, authenticated: bool = True, allowed: bool = True, code: int = 201
) -> None:
    """Configures the responses to both reviews."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("tokenreviews"):
            return web.json_response({"status": {"authenticated": authenticated, "user": USER}}, status=code)
        return web.json_response({"status": {"allowed": allowed}}, status=code)

    cluster.answer = answer


async def test_a_caller_with_permission_reads_the_metrics(
    guarded: ProxyClient, cluster: FakeApiServer
) -> None:
    reviews(cluster)

    answer = await guarded.get("/metrics")

    assert (answer.status, b"launcher_http_requests_total" in answer.body) == (200, True)
    token, access = cluster.requests
    assert (token.path, token.json()["spec"]) == (
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"token": "of-the-caller"},
    )
    assert (access.path, access.json()["spec"]) == (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "user": "prometheus",
            "uid": "u",
            "groups": ["monitoring"],
            "extra": {"scopes": ["a"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    )
    assert {requests.headers["Authorization"] for requests in cluster.requests} == {LAUNCHER_CREDENTIALS}


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic YTpi", "token"])
async def test_a_caller_without_a_token_is_rejected_without_a_review(
    guarded: ProxyClient, cluster: FakeApiServer, header: str
) -> None:
    answer = await guarded.get("/metrics", Authorization=header)

    assert (answer.status, cluster.requests) == (401, [])


async def test_an_unknown_token_is_unauthorized(guarded: ProxyClient, cluster: FakeApiServer) -> None:
    reviews(cluster, authenticated=False)

    answer = await guarded.get("/metrics")

    assert (answer.status, len(cluster.requests)) == (401, 1)


async def test_a_caller_without_permission_is_forbidden_by_name(
    guarded: ProxyClient, cluster: FakeApiServer
) -> None:
    reviews(cluster, allowed=False)

    failure = (await guarded.get("/metrics")).failure(403, "Forbidden")

    assert 'User "prometheus" cannot get path "/metrics"' in failure["message"]


async def test_missing_permissions_for_reviews_are_reported(
    guarded: ProxyClient, cluster: FakeApiServer
) -> None:
    reviews(cluster, code=403)

    failure = (await guarded.get("/metrics")).failure(503, "ServiceUnavailable")

    assert "components/metrics-auth" in failure["message"]


async def test_metrics_are_public_without_metrics_auth(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    answer = await proxy.get("/metrics", Authorization="")

    assert (answer.status, cluster.requests) == (200, [])
