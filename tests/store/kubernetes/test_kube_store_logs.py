"""Logs of containers through the KubeStore."""

import asyncio

import pytest
from aiohttp import web

from launcher.core.errors import BadRequest, Forbidden, LauncherError, NotFound, Unavailable
from launcher.store.kubernetes.kube_store import KubeStore
from tests.store.kubernetes.conftest import ServedStore


async def read(store: KubeStore, pod: str = "mnist-worker-0", *, follow: bool = False) -> bytes:
    async with store.open_log(
        "default", pod, "main", previous=not follow, follow=follow, tail_lines=100
    ) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_the_last_lines_of_a_log_are_requested_with_timestamps(served_by: ServedStore) -> None:
    requested = []

    async def respond(request: web.Request) -> web.Response:
        requested.append((request.path, dict(request.query)))
        return web.Response(body=b"a line\n")

    async with served_by(respond) as store:
        assert await read(store) == b"a line\n"
        await read(store, follow=True)

    path, query = "/api/v1/namespaces/default/pods/mnist-worker-0/log", {"container": "main"}
    query |= {"timestamps": "true", "tailLines": "100"}
    assert requested == [(path, {**query, "previous": "true"}), (path, {**query, "follow": "true"})]


async def test_a_long_log_is_read_completely(served_by: ServedStore) -> None:
    text = b"x" * 5_000_000

    async def respond(_: web.Request) -> web.Response:
        return web.Response(body=text)

    async with served_by(respond) as store:
        assert await read(store) == text


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        pytest.param(404, {"details": {"name": "mnist-worker-0"}}, NotFound, id="no such pod"),
        pytest.param(400, {"message": "is waiting to start"}, BadRequest, id="no such log"),
        pytest.param(403, {"message": "forbidden"}, Forbidden, id="no permission"),
        pytest.param(500, {"message": "dial tcp: connection refused"}, Unavailable, id="no kubelet"),
        pytest.param(429, {"message": "too many"}, Unavailable, id="an overloaded server"),
    ],
)
async def test_an_error_response_is_translated(
    served_by: ServedStore, code: int, status: dict[str, object], error: type[LauncherError]
) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": code, **status}, status=code)

    async with served_by(respond) as store:
        with pytest.raises(error):
            await read(store)


async def test_an_interrupted_log_is_not_taken_for_a_complete_one(served_by: ServedStore) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a line\n")
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(0)
        return response

    async with served_by(respond) as store:
        with pytest.raises(Unavailable):
            await read(store)


async def test_an_invalid_name_is_not_requested(served_by: ServedStore) -> None:
    async def respond(_: web.Request) -> web.Response:
        raise AssertionError

    async with served_by(respond) as store:
        with pytest.raises(NotFound):
            await read(store, "../secrets")
