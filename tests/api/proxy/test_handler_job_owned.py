"""Through the proxy: the Warning header of a DELETE of a Framework that a job creates again."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import TOKEN, ProxyClient
from tests.api.resources.test_job_owned import EXPECTED, OWNER
from tests.api.samples import A, B, framework


def api_server_with(status: int) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Answers a GET with that status and the Framework of a job, and a DELETE with success."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            owned = framework(namespace="default", ownerReferences=[OWNER])
            return web.json_response(owned, status=status)
        return web.json_response({"kind": "Status", "status": "Success"})

    return answer


async def test_the_framework_is_read_with_the_callers_credentials_before_its_deletion(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server_with(200)

    answer = await proxy.delete(A, {"propagationPolicy": "Background"})

    assert (answer.status, answer.headers.getall("Warning")) == (200, [EXPECTED])
    assert [(requests.method, requests.path) for requests in cluster.requests] == [("GET", A), ("DELETE", A)]
    assert {requests.headers["Authorization"] for requests in cluster.requests} == {TOKEN}
    assert (cluster.requests[0].body, cluster.last.json()) == (b"", {"propagationPolicy": "Background"})


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_caller_without_read_permission_gets_no_warning(
    proxy: ProxyClient, cluster: FakeApiServer, status: int
) -> None:
    cluster.answer = api_server_with(status)

    answer = await proxy.delete(A)

    assert (answer.status, "Warning" in answer.headers) == (200, False)


@pytest.mark.parametrize("path", [B, "/api/v1/namespaces/default/pods/a"])
async def test_nothing_is_read_for_other_deletions(
    proxy: ProxyClient, cluster: FakeApiServer, path: str
) -> None:
    await proxy.delete(path)

    assert [requests.method for requests in cluster.requests] == ["DELETE"]
