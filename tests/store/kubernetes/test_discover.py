"""What a cluster serves is asked of the cluster itself."""

import pytest
from aiohttp import web

from launcher.core.errors import NotServed
from tests.store.kubernetes.conftest import Answering


async def test_it_is_told_as_the_server_tells_it(answering: Answering) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "APIGroupList", "groups": [{"name": request.path}]})

    async with answering(answer) as store:
        assert (await store.discover("/apis"))["groups"] == [{"name": "/apis"}]


async def test_a_group_that_is_not_there_is_not_served(answering: Answering) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="404 page not found")

    async with answering(answer) as store:
        with pytest.raises(NotServed):
            await store.discover("/apis/scheduling.volcano.sh/v1beta1")
