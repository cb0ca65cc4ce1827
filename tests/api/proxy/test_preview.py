"""Previews through the proxy: for callers who may list Frameworks, without any other request to the API server."""

import orjson
import pytest
from aiohttp import web

from tests.api.proxy.fake_api_server import FakeApiServer, HttpResponse
from tests.api.proxy.proxies import TOKEN, ProxyClient
from tests.api.samples import B, framework

PREVIEWS = B.replace("/frameworks", "/previews")


def reviewing(*, allowed: bool, code: int = 201) -> HttpResponse:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(
            {"kind": "Status", "code": code, "status": {"allowed": allowed}}, status=code
        )

    return answer


async def test_a_caller_who_may_list_frameworks_gets_the_preview(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = reviewing(allowed=True)

    response = await proxy.post(PREVIEWS, framework("mnist"))

    assert response.status == 200
    assert [each["errors"] for each in response.json()["documents"]] == [[]]
    (review,) = cluster.requests
    assert review.headers["Authorization"] == TOKEN
    assert orjson.loads(review.body)["spec"]["resourceAttributes"] == {
        "namespace": "default",
        "verb": "list",
        "group": "launcher.microsoft.com",
        "resource": "frameworks",
    }


async def test_other_callers_are_rejected(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = reviewing(allowed=False)

    response = await proxy.post(PREVIEWS, framework("mnist"))

    assert "list frameworks" in response.failure(403, "Forbidden")["message"]


@pytest.mark.parametrize("code", [401, 403])
async def test_an_error_of_the_review_is_that_of_the_preview(
    proxy: ProxyClient, cluster: FakeApiServer, code: int
) -> None:
    cluster.answer = reviewing(allowed=False, code=code)

    assert (await proxy.post(PREVIEWS, framework("mnist"))).status == code


async def test_jobs_of_a_kind_that_this_launcher_does_not_run_are_errors(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = reviewing(allowed=True)

    response = await proxy.post(PREVIEWS, {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"})

    (found,) = response.json()["documents"]
    assert "TFJob" in found["errors"][0]["message"]
