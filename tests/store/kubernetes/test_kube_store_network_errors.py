"""Errors of the network and the server: no wrong result, and no write that is sent twice."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from launcher.core.errors import OutcomeUnknown, TooLarge, TooManyRequests, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORKS,
    DeleteOptions,
    MergePatch,
    Object,
    Propagation,
    ResourceKind,
    Store,
)
from launcher.store.kubernetes.http_client import Timeouts
from launcher.store.kubernetes.kube_store import KubeStore
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import a_framework, an_object, with_
from tests.store.kubernetes.conftest import ServedStore, open_store
from tests.store.kubernetes.faulty_proxy import FaultyProxy

Write = Callable[[Store, Object], Awaitable[object]]
BACKGROUND = DeleteOptions(propagation=Propagation.BACKGROUND)
FOREGROUND = DeleteOptions(propagation=Propagation.FOREGROUND)

WRITES = [
    pytest.param(lambda store, _: store.create(FRAMEWORKS, a_framework("new")), id="create"),
    pytest.param(lambda store, created: store.update(FRAMEWORKS, with_label(created)), id="update"),
    pytest.param(
        lambda store, created: store.update_status(FRAMEWORKS, with_(created, status={"state": "Completed"})),
        id="update_status",
    ),
    pytest.param(
        lambda store, created: store.patch(
            FRAMEWORKS, "default", "mnist", MergePatch({"metadata": {"labels": {"a": "b"}}})
        ),
        id="patch",
    ),
    pytest.param(
        lambda store, created: store.delete(FRAMEWORKS, "default", "mnist", FOREGROUND), id="delete"
    ),
]


def with_label(created: Object) -> Object:
    return {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_response_is_lost_has_an_unknown_outcome_and_is_sent_once(
    kube_store: KubeStore, proxy: FaultyProxy, backing_store: MemoryStore, write: Write
) -> None:
    created = await kube_store.create(FRAMEWORKS, a_framework("mnist"))
    before = backing_store.version
    proxy.responses_to_lose = 1

    with pytest.raises(OutcomeUnknown, match="lost"):
        await write(kube_store, created)

    assert backing_store.version == before + 1


@pytest.mark.parametrize("write", WRITES)
async def test_a_dry_run_whose_response_is_lost_is_unavailable(
    kube_store: KubeStore, proxy: FaultyProxy, write: Write
) -> None:
    class DryRunStore:
        """The store with dry_run in every call."""

        def __getattr__(self, verb: str) -> Callable[..., Awaitable[object]]:
            return lambda *args: getattr(kube_store, verb)(*args, dry_run=True)

    created = await kube_store.create(FRAMEWORKS, a_framework("mnist"))
    proxy.responses_to_lose = 2

    with pytest.raises(Unavailable) as caught:
        await write(DryRunStore(), created)  # type: ignore[arg-type]  # it forwards every call

    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_write_that_was_not_sent_is_unavailable() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    async with open_store(f"http://127.0.0.1:{port}") as store:
        with pytest.raises(Unavailable, match="cannot be reached") as caught:
            await store.create(FRAMEWORKS, a_framework("mnist"))

    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_read_over_a_closed_connection_is_retried(kube_store: KubeStore, proxy: FaultyProxy) -> None:
    created = await kube_store.create(FRAMEWORKS, a_framework("mnist"))
    proxy.disconnect()

    assert await kube_store.get(FRAMEWORKS, "default", "mnist") == created


async def test_a_read_that_fails_twice_is_unavailable(kube_store: KubeStore, proxy: FaultyProxy) -> None:
    proxy.responses_to_lose = 2

    with pytest.raises(Unavailable) as caught:
        await kube_store.list(FRAMEWORKS)

    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_call_without_a_response_times_out(proxy: FaultyProxy) -> None:
    proxy.drop_data()

    async with asyncio.timeout(TIMEOUT_SECONDS), open_store(proxy.url, timeouts=Timeouts(call=0.2)) as store:
        with pytest.raises(OutcomeUnknown):
            await store.create(FRAMEWORKS, a_framework("mnist"))
        with pytest.raises(Unavailable):
            await store.get(FRAMEWORKS, "default", "mnist")


async def test_a_busy_server_returns_retry_after(served_by: ServedStore) -> None:
    async def busy(_: web.Request) -> web.Response:
        status = {"kind": "Status", "reason": "TooManyRequests", "message": "slow down", "code": 429}
        return web.json_response(status, status=429, headers={"Retry-After": "9"})

    async with served_by(busy) as store:
        with pytest.raises(TooManyRequests, match="slow down") as caught:
            await store.create(FRAMEWORKS, a_framework("mnist"))
        throttled_seconds = store.throttled_seconds

    assert caught.value.retry_after == 9
    assert 0 < throttled_seconds <= 9


@pytest.mark.parametrize("body", [b"<html>Welcome!</html>", b"[]", b"", b'{"kind":'])
async def test_a_response_that_is_not_an_object_is_an_error(served_by: ServedStore, body: bytes) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with served_by(page) as store:
        with pytest.raises(Unavailable):
            await store.get(FRAMEWORKS, "default", "mnist")
        with pytest.raises(OutcomeUnknown):
            await store.create(FRAMEWORKS, a_framework("mnist"))


async def test_a_body_over_the_limit_is_not_sent(kube_store: KubeStore, proxy: FaultyProxy) -> None:
    with pytest.raises(TooLarge):
        await kube_store.create(CONFIG_MAPS, an_object(CONFIG_MAPS, "big", data={"a": "x" * 3 * 1024 * 1024}))

    assert proxy.connections == 0


async def test_an_unserved_kind_is_not_reported_as_a_missing_object(kube_store: KubeStore) -> None:
    with pytest.raises(Unavailable, match="does not serve"):
        await kube_store.get(ResourceKind("example.com", "v1", "things", "Thing"), "default", "one")


# Watches


async def test_a_broken_watch_ends_and_the_next_one_continues(
    kube_store: KubeStore, proxy: FaultyProxy
) -> None:
    since = (await kube_store.list(FRAMEWORKS)).version
    first = await kube_store.create(FRAMEWORKS, a_framework("first"))

    seen = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        async for change in kube_store.watch(FRAMEWORKS, since=since):
            seen.append(change)
            proxy.disconnect()
        second = await kube_store.create(FRAMEWORKS, a_framework("second"))
        next_watch = kube_store.watch(FRAMEWORKS, since=seen[-1].version)
        seen.append(await anext(next_watch))

    assert [change.object for change in seen] == [first, second]


async def test_a_watch_without_data_times_out(proxy: FaultyProxy) -> None:
    async with open_store(proxy.url, timeouts=Timeouts(silence=3.0)) as store:
        since = (await store.list(FRAMEWORKS)).version
        began = time.monotonic()

        async with asyncio.timeout(TIMEOUT_SECONDS):
            seen = [change async for change in store.watch(FRAMEWORKS, since=since)]

    assert seen == []
    assert time.monotonic() - began >= 3.0


async def test_a_watch_that_cannot_start_is_unavailable(kube_store: KubeStore, proxy: FaultyProxy) -> None:
    proxy.responses_to_lose = 2  # a broken connection is retried once

    with pytest.raises(Unavailable, match="cannot be reached"):
        await anext(kube_store.watch(FRAMEWORKS, since=1))


async def test_a_watch_ends_with_the_store(kube_store: KubeStore) -> None:
    since = (await kube_store.list(FRAMEWORKS)).version
    await kube_store.create(FRAMEWORKS, a_framework("mnist"))
    watch = kube_store.watch(FRAMEWORKS, since=since)
    await anext(watch)

    await kube_store.close()

    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert [change async for change in watch] == []
