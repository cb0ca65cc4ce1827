"""Discovery documents of a cluster."""

import pytest
from aiohttp import web

from launcher.core.errors import NotServed
from tests.store.kubernetes.conftest import ServedStore


async def test_discovery_returns_the_servers_document(served_by: ServedStore) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "APIGroupList", "groups": [{"name": request.path}]})

    async with served_by(respond) as store:
        assert (await store.discover("/apis"))["groups"] == [{"name": "/apis"}]


async def test_a_missing_group_is_not_served(served_by: ServedStore) -> None:
    async def respond(_: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="404 page not found")

    async with served_by(respond) as store:
        with pytest.raises(NotServed):
            await store.discover("/apis/scheduling.volcano.sh/v1beta1")
