"""Watches coalesce events."""

import asyncio
from contextlib import aclosing

import orjson
import pytest
from aiohttp import web

from launcher.store.interface import PODS, ChangeType
from launcher.store.kubernetes import http_client
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import with_metadata
from tests.store.kubernetes.conftest import ServedStore


def watch_event(version: int) -> bytes:
    """Returns a watch event of a pod at that version."""
    pod = with_metadata(a_pod(), uid="u", resourceVersion=str(version))
    return orjson.dumps({"type": "MODIFIED", "object": pod}) + b"\n"


async def test_the_first_event_is_delivered_at_once_and_later_ones_together(
    served_by: ServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_COALESCE_SECONDS", 2.0)
    first_received = asyncio.Event()
    arrived: list[tuple[int, float]] = []

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(watch_event(1))
        await first_received.wait()
        for version in range(2, 12):
            await response.write(watch_event(version))
            await asyncio.sleep(0.02)
        return response

    async with asyncio.timeout(TIMEOUT_SECONDS), served_by(respond) as store:
        async for change in store.watch(PODS, since=0):
            arrived.append((change.version, asyncio.get_running_loop().time()))
            first_received.set()

    assert [version for version, _ in arrived] == list(range(1, 12)), (
        "no event is lost, also at the end of the stream"
    )
    assert arrived[1][1] - arrived[0][1] > 1.5, "events are collected"
    assert arrived[-1][1] - arrived[1][1] < 1.0, "and delivered together, though each was sent separately"


async def test_a_watch_can_be_closed_while_it_coalesces(
    served_by: ServedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_COALESCE_SECONDS", 1000.0)

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(watch_event(1))
        await asyncio.sleep(TIMEOUT_SECONDS)
        return response

    async with (
        asyncio.timeout(TIMEOUT_SECONDS / 2),
        served_by(respond) as store,
        aclosing(store.watch(PODS, since=0)) as changes,
    ):
        first = await anext(changes)
        second = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.wait([second])

    assert first.type is ChangeType.MODIFIED
