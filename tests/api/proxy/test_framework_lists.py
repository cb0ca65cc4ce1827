"""Lists by a part of the name and by node through the proxy, which reads pages of the API server as the caller."""

from typing import Any

import pytest
from aiohttp import web

from tests.api.proxy.fake_api_server import FakeApiServer, HttpResponse
from tests.api.proxy.proxies import TOKEN, ProxyClient
from tests.api.samples import B, names

Json = dict[str, Any]
ALL_NAMES = ["a1", "b1", "a2", "a3", "b2", "a4"]


def api_server(pods: list[str] | None = None, *, table: bool = False) -> HttpResponse:
    """Serves six Frameworks in pages of the requested limit, and pods of Frameworks; None: pods are forbidden."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/pods"):
            if pods is None:
                return web.json_response({"kind": "Status", "code": 403, "message": "no"}, status=403)
            labels = [{"FC_FRAMEWORK_NAME": name} for name in pods]
            items = [{"metadata": {"namespace": "default", "labels": each}} for each in labels]
            return web.json_response({"items": items})
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        objects = [entry(name) for name in ALL_NAMES[begin : begin + limit]]
        token = str(begin + limit) if begin + limit < len(ALL_NAMES) else ""
        metadata = {"resourceVersion": "7", "continue": token, "remainingItemCount": 9}
        if table:
            rows = [{"cells": [], "object": each} for each in objects]
            return web.json_response({"kind": "Table", "metadata": metadata, "rows": rows})
        return web.json_response({"kind": "FrameworkList", "metadata": metadata, "items": objects})

    return answer


def entry(name: str) -> Json:
    return {"metadata": {"namespace": "default", "name": name}}


async def test_pages_are_read_until_the_limit_is_reached(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = api_server()

    first = (await proxy.get(f"{B}?nameContains=a&limit=2")).json()
    second = (await proxy.get(f"{B}?nameContains=a&limit=2&continue={first['metadata']['continue']}")).json()

    assert names(first) + names(second) == ["a1", "a2", "a3", "a4"][: len(names(first)) + len(names(second))]
    assert len(names(first)) <= 2
    assert "remainingItemCount" not in first["metadata"]
    assert {request.headers["Authorization"] for request in cluster.requests} == {TOKEN}


async def test_all_matches_are_found_over_the_pages(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = api_server()
    found: list[str] = []
    token = ""
    for _ in range(len(ALL_NAMES)):
        page = (await proxy.get(f"{B}?nameContains=a&limit=2&continue={token}")).json()
        assert len(names(page)) <= 2
        found += names(page)
        if not (token := page["metadata"].get("continue", "")):
            break

    assert found == ["a1", "a2", "a3", "a4"]
    assert token == ""


async def test_tables_are_limited_too(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = api_server(table=True)

    table = (await proxy.get(f"{B}?nameContains=b", "application/json;as=Table;v=v1;g=meta.k8s.io")).json()

    assert [row["object"]["metadata"]["name"] for row in table["rows"]] == ["b1", "b2"]


async def test_the_frameworks_on_a_node_are_those_of_its_pods(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(["a3", "b2"])

    assert names((await proxy.get(f"{B}?nodeName=gpu-1")).json()) == ["a3", "b2"]
    assert "spec.nodeName%3Dgpu-1" in cluster.requests[0].path


async def test_a_caller_who_may_not_list_pods_gets_the_error_of_the_api_server(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(None)

    assert (await proxy.get(f"{B}?nodeName=gpu-1")).status == 403


async def test_other_lists_are_forwarded_unchanged(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = api_server()

    await proxy.get(f"{B}?limit=3&labelSelector=team")

    assert cluster.requests[0].path == f"{B}?limit=3&labelSelector=team"


@pytest.mark.parametrize("method", ["DELETE", "GET"])
async def test_a_delete_or_watch_with_these_options_is_not_forwarded(
    proxy: ProxyClient, cluster: FakeApiServer, method: str
) -> None:
    response = await proxy.call(method, f"{B}?nameContains=a{'&watch=1' if method == 'GET' else ''}")

    assert response.status == 400
    assert cluster.requests == []
