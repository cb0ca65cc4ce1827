"""``/metrics`` of a cluster's launcher behind authentication."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.conftest import OWN
from tests.api.proxy.doors import Door, door_to
from tests.api.proxy.upstream import ApiServer

USER = {"username": "prometheus", "uid": "u", "groups": ["monitoring"], "extra": {"scopes": ["a"]}}


@pytest.fixture
async def guarded(cluster: ApiServer) -> AsyncIterator[Door]:
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN)), metrics_auth=True) as running:
        yield running


def reviews(cluster: ApiServer, *, authenticated: bool = True, allowed: bool = True, code: int = 201) -> None:
    """Let the cluster answer both reviews so."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("tokenreviews"):
            return web.json_response({"status": {"authenticated": authenticated, "user": USER}}, status=code)
        return web.json_response({"status": {"allowed": allowed}}, status=code)

    cluster.answer = answer


async def test_a_caller_whom_the_cluster_lets_get_the_path_reads_the_metrics(
    guarded: Door, cluster: ApiServer
) -> None:
    reviews(cluster)

    answer = await guarded.get("/metrics")

    assert (answer.status, b"launcher_http_requests_total" in answer.body) == (200, True)
    token, access = cluster.asked
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
    assert {asked.headers["Authorization"] for asked in cluster.asked} == {OWN}


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic YTpi", "token"])
async def test_a_caller_without_a_token_is_refused_and_the_cluster_not_asked(
    guarded: Door, cluster: ApiServer, header: str
) -> None:
    answer = await guarded.get("/metrics", Authorization=header)

    assert (answer.status, cluster.asked) == (401, [])


async def test_a_token_that_the_cluster_does_not_know_is_refused(guarded: Door, cluster: ApiServer) -> None:
    reviews(cluster, authenticated=False)

    answer = await guarded.get("/metrics")

    assert (answer.status, len(cluster.asked)) == (401, 1)


async def test_a_caller_without_the_right_is_refused_by_name(guarded: Door, cluster: ApiServer) -> None:
    reviews(cluster, allowed=False)

    refused = (await guarded.get("/metrics")).refused(403, "Forbidden")

    assert 'User "prometheus" cannot get path "/metrics"' in refused["message"]


async def test_a_launcher_without_the_rights_for_reviews_says_so(guarded: Door, cluster: ApiServer) -> None:
    reviews(cluster, code=403)

    refused = (await guarded.get("/metrics")).refused(503, "ServiceUnavailable")

    assert "components/metrics-auth" in refused["message"]


async def test_metrics_are_open_where_no_authentication_is_asked_for(door: Door, cluster: ApiServer) -> None:
    answer = await door.get("/metrics", Authorization="")

    assert (answer.status, cluster.asked) == (200, [])
