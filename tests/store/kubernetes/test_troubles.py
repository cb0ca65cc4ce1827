"""What the store makes of a network and a server that misbehave: never a wrong answer, never a write sent twice."""

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
from tests.store.builders import PATIENCE, an_object, with_
from tests.store.kubernetes.conftest import Answering, opened
from tests.store.kubernetes.proxy import Proxy
from tests.store.kubernetes.samples import a_framework

Write = Callable[[Store, Object], Awaitable[object]]
BACKGROUND = DeleteOptions(propagation=Propagation.BACKGROUND)
FOREGROUND = DeleteOptions(propagation=Propagation.FOREGROUND)

WRITES = [
    pytest.param(lambda store, _: store.create(FRAMEWORKS, a_framework("new")), id="create"),
    pytest.param(lambda store, made: store.update(FRAMEWORKS, with_label(made)), id="update"),
    pytest.param(
        lambda store, made: store.update_status(FRAMEWORKS, with_(made, status={"state": "Completed"})),
        id="update_status",
    ),
    pytest.param(
        lambda store, made: store.patch(
            FRAMEWORKS, "default", "mnist", MergePatch({"metadata": {"labels": {"a": "b"}}})
        ),
        id="patch",
    ),
    pytest.param(lambda store, made: store.delete(FRAMEWORKS, "default", "mnist", FOREGROUND), id="delete"),
]


def with_label(made: Object) -> Object:
    return {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_answer_is_lost_may_have_taken_effect_and_is_sent_once(
    kube: KubeStore, line: Proxy, behind: MemoryStore, write: Write
) -> None:
    made = await kube.create(FRAMEWORKS, a_framework("mnist"))
    before = behind.version
    line.to_lose = 1

    with pytest.raises(OutcomeUnknown, match="lost"):
        await write(kube, made)

    assert behind.version == before + 1


@pytest.mark.parametrize("write", WRITES)
async def test_a_dry_run_whose_answer_is_lost_has_changed_nothing(
    kube: KubeStore, line: Proxy, write: Write
) -> None:
    class Dry:
        """The same store, always without effect."""

        def __getattr__(self, verb: str) -> Callable[..., Awaitable[object]]:
            return lambda *args: getattr(kube, verb)(*args, dry_run=True)

    made = await kube.create(FRAMEWORKS, a_framework("mnist"))
    line.to_lose = 2

    with pytest.raises(Unavailable) as caught:
        await write(Dry(), made)  # type: ignore[arg-type]  # it hands on whatever is asked of it

    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_write_that_never_left_has_changed_nothing() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    async with opened(f"http://127.0.0.1:{port}") as store:
        with pytest.raises(Unavailable, match="cannot be reached") as caught:
            await store.create(FRAMEWORKS, a_framework("mnist"))

    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_read_over_a_connection_that_was_closed_meanwhile_is_asked_again(
    kube: KubeStore, line: Proxy
) -> None:
    made = await kube.create(FRAMEWORKS, a_framework("mnist"))
    line.cut()

    assert await kube.get(FRAMEWORKS, "default", "mnist") == made


async def test_a_read_that_is_lost_again_and_again_is_unavailable(kube: KubeStore, line: Proxy) -> None:
    line.to_lose = 2

    with pytest.raises(Unavailable) as caught:
        await kube.list(FRAMEWORKS)

    assert not isinstance(caught.value, OutcomeUnknown)


async def test_a_call_that_is_never_answered_ends(line: Proxy) -> None:
    line.hold()

    async with asyncio.timeout(PATIENCE), opened(line.url, patience=Timeouts(call=0.2)) as store:
        with pytest.raises(OutcomeUnknown):
            await store.create(FRAMEWORKS, a_framework("mnist"))
        with pytest.raises(Unavailable):
            await store.get(FRAMEWORKS, "default", "mnist")


async def test_a_server_that_is_too_busy_says_how_long_to_wait(answering: Answering) -> None:
    async def busy(_: web.Request) -> web.Response:
        status = {"kind": "Status", "reason": "TooManyRequests", "message": "slow down", "code": 429}
        return web.json_response(status, status=429, headers={"Retry-After": "9"})

    async with answering(busy) as store:
        with pytest.raises(TooManyRequests, match="slow down") as caught:
            await store.create(FRAMEWORKS, a_framework("mnist"))

    assert caught.value.retry_after == 9


@pytest.mark.parametrize("body", [b"<html>Welcome!</html>", b"[]", b"", b'{"kind":'])
async def test_an_answer_that_is_no_object_is_not_believed(answering: Answering, body: bytes) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with answering(page) as store:
        with pytest.raises(Unavailable):
            await store.get(FRAMEWORKS, "default", "mnist")
        with pytest.raises(OutcomeUnknown):
            await store.create(FRAMEWORKS, a_framework("mnist"))


async def test_what_is_over_the_limit_is_not_even_sent(kube: KubeStore, line: Proxy) -> None:
    with pytest.raises(TooLarge):
        await kube.create(CONFIG_MAPS, an_object(CONFIG_MAPS, "big", data={"a": "x" * 3 * 1024 * 1024}))

    assert line.connections == 0


async def test_a_kind_that_is_not_served_is_no_proof_that_the_object_is_gone(kube: KubeStore) -> None:
    with pytest.raises(Unavailable, match="does not serve"):
        await kube.get(ResourceKind("example.com", "v1", "things", "Thing"), "default", "one")


# Watches


async def test_a_watch_that_is_cut_off_ends_and_another_goes_on_from_there(
    kube: KubeStore, line: Proxy
) -> None:
    since = (await kube.list(FRAMEWORKS)).version
    first = await kube.create(FRAMEWORKS, a_framework("first"))

    seen = []
    async with asyncio.timeout(PATIENCE):
        async for change in kube.watch(FRAMEWORKS, since=since):
            seen.append(change)
            line.cut()
        second = await kube.create(FRAMEWORKS, a_framework("second"))
        again = kube.watch(FRAMEWORKS, since=seen[-1].version)
        seen.append(await anext(again))

    assert [change.object for change in seen] == [first, second]


async def test_a_watch_of_a_peer_that_is_silent_for_too_long_ends(line: Proxy) -> None:
    async with opened(line.url, patience=Timeouts(silence=3.0)) as store:
        since = (await store.list(FRAMEWORKS)).version
        began = time.monotonic()

        async with asyncio.timeout(PATIENCE):
            seen = [change async for change in store.watch(FRAMEWORKS, since=since)]

    assert seen == []
    assert time.monotonic() - began >= 3.0


async def test_a_watch_that_cannot_begin_says_so(kube: KubeStore, line: Proxy) -> None:
    line.to_lose = 1

    with pytest.raises(Unavailable, match="cannot be reached"):
        await anext(kube.watch(FRAMEWORKS, since=1))


async def test_a_watch_ends_with_the_store(kube: KubeStore) -> None:
    since = (await kube.list(FRAMEWORKS)).version
    await kube.create(FRAMEWORKS, a_framework("mnist"))
    watch = kube.watch(FRAMEWORKS, since=since)
    await anext(watch)

    await kube.close()

    async with asyncio.timeout(PATIENCE):
        assert [change async for change in watch] == []
