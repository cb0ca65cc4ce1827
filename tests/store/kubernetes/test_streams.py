"""Watches take in what comes by the handful: one by one, it would cost several times as much."""

import asyncio
from contextlib import aclosing

import orjson
import pytest
from aiohttp import web

from launcher.store.interface import PODS, ChangeType
from launcher.store.kubernetes import http_client
from tests.store.builders import PATIENCE, a_pod, with_metadata
from tests.store.kubernetes.conftest import Answering


def told(version: int) -> bytes:
    """The line of a watch that tells of a pod at that version."""
    pod = with_metadata(a_pod(), uid="u", resourceVersion=str(version))
    return orjson.dumps({"type": "MODIFIED", "object": pod}) + b"\n"


async def test_what_comes_first_is_told_at_once_and_the_rest_together(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_BREATH", 2.0)
    first_is_told = asyncio.Event()
    arrived: list[tuple[int, float]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(told(1))
        await first_is_told.wait()
        for version in range(2, 12):
            await response.write(told(version))
            await asyncio.sleep(0.02)
        return response

    async with asyncio.timeout(PATIENCE), answering(answer) as store:
        async for change in store.watch(PODS, since=0):
            arrived.append((change.version, asyncio.get_running_loop().time()))
            first_is_told.set()

    assert [version for version, _ in arrived] == list(range(1, 12)), (
        "none is lost, at the end of the stream either"
    )
    assert arrived[1][1] - arrived[0][1] > 1.5, "they gather"
    assert arrived[-1][1] - arrived[1][1] < 1.0, "and come together, though each was sent on its own"


async def test_a_watch_that_is_left_while_it_gathers_is_left_at_once(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_BREATH", 1000.0)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(told(1))
        await asyncio.sleep(PATIENCE)
        return response

    async with (
        asyncio.timeout(PATIENCE / 2),
        answering(answer) as store,
        aclosing(store.watch(PODS, since=0)) as changes,
    ):
        first = await anext(changes)
        second = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.wait([second])

    assert first.happened is ChangeType.MODIFIED
