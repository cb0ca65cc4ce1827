"""Through the proxy: the Warning header of a DELETE of a Framework that a job creates again."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from tests.api.proxy.doors import TOKEN, Door
from tests.api.proxy.upstream import ApiServer
from tests.api.samples import A, B, framework
from tests.api.test_job_owned import EXPECTED, OWNER


def api_server_with(status: int) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Answers a GET with that status and the Framework of a job, and a DELETE with success."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            owned = framework(namespace="default", ownerReferences=[OWNER])
            return web.json_response(owned, status=status)
        return web.json_response({"kind": "Status", "status": "Success"})

    return answer


async def test_the_framework_is_read_as_the_caller_and_the_deletion_goes_on_with_a_warning(
    door: Door, cluster: ApiServer
) -> None:
    cluster.answer = api_server_with(200)

    answer = await door.delete(A, {"propagationPolicy": "Background"})

    assert (answer.status, answer.headers.getall("Warning")) == (200, [EXPECTED])
    assert [(asked.method, asked.path) for asked in cluster.asked] == [("GET", A), ("DELETE", A)]
    assert {asked.headers["Authorization"] for asked in cluster.asked} == {TOKEN}
    assert (cluster.asked[0].body, cluster.last.json()) == (b"", {"propagationPolicy": "Background"})


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_caller_that_may_not_read_it_deletes_it_without_a_warning(
    door: Door, cluster: ApiServer, status: int
) -> None:
    cluster.answer = api_server_with(status)

    answer = await door.delete(A)

    assert (answer.status, "Warning" in answer.headers) == (200, False)


@pytest.mark.parametrize("path", [B, "/api/v1/namespaces/default/pods/a"])
async def test_nothing_is_read_for_other_deletions(door: Door, cluster: ApiServer, path: str) -> None:
    await door.delete(path)

    assert [asked.method for asked in cluster.asked] == ["DELETE"]
