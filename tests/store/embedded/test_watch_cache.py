"""Limits of the watch cache, slow watchers and parsing."""

import asyncio
from contextlib import aclosing

import pytest

from launcher.core.errors import Expired, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType
from launcher.store.selectors import Selector
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import NOW, a_framework, next_changes, uids


def a_store(history: WatchCache) -> MemoryStore:
    return MemoryStore(lambda: NOW, uids(), history)


async def fill(store: MemoryStore, count: int, start: int = 0) -> None:
    for n in range(start, start + count):
        await store.create(FRAMEWORKS, a_framework(f"f-{n}"))


async def test_the_watch_cache_is_limited_by_number_of_changes() -> None:
    store = a_store(WatchCache(max_entries=10))
    await fill(store, 25)

    received = await next_changes(store.watch(FRAMEWORKS, since=16), 10)
    with pytest.raises(Expired, match="version 15"):
        await next_changes(store.watch(FRAMEWORKS, since=15), 1)

    assert [change.version for change in received] == list(range(17, 27))


async def test_the_watch_cache_is_limited_by_size() -> None:
    history = WatchCache(max_bytes=10_000)
    store = a_store(history)
    for n in range(20):
        await store.create(FRAMEWORKS, a_framework(f"f-{n}", annotations={"a": "x" * 1000}))

    assert len(await next_changes(store.watch(FRAMEWORKS, since=history.start), 21 - history.start)) >= 7
    with pytest.raises(Expired):
        await next_changes(store.watch(FRAMEWORKS, since=10), 1)


async def test_at_least_ten_thousand_changes_are_cached() -> None:
    store = a_store(WatchCache())
    await fill(store, 10_001)

    assert (await next_changes(store.watch(FRAMEWORKS, since=2), 10_000))[-1].version == 10_002


async def test_a_slow_watcher_continues_while_its_changes_are_cached() -> None:
    store = a_store(WatchCache(max_entries=5_000))
    watch = store.watch(FRAMEWORKS, since=0)
    await fill(store, 1)
    first = await next_changes(watch, 1)

    await fill(store, 4_000, start=1)

    received = first + await next_changes(watch, 4_000)
    assert [change.version for change in received] == list(range(2, 4_003))


async def test_a_watcher_that_does_not_read_expires_and_does_not_delay_others() -> None:
    store = a_store(WatchCache(max_entries=2_000))
    slow, quick = store.watch(FRAMEWORKS, since=0), store.watch(FRAMEWORKS, since=0)
    await fill(store, 1)
    await next_changes(slow, 1)
    await next_changes(quick, 1)

    for begin in range(1, 6_001, 500):
        await fill(store, 500, start=begin)
        assert len(await next_changes(quick, 500)) == 500

    with pytest.raises(Expired):
        await next_changes(slow, 1)


async def test_a_slow_watcher_of_few_objects_is_not_expired_by_other_changes() -> None:
    store = a_store(WatchCache(max_entries=3_000))
    watch = store.watch(PODS, since=0)
    waiting = asyncio.ensure_future(next_changes(watch, 1))
    await asyncio.sleep(0)
    await store.create(PODS, a_pod("first"))
    await waiting

    await fill(store, 10_000)
    for n in range(1_500):
        await store.create(PODS, a_pod(f"p-{n}"))

    assert len(await next_changes(watch, 1_500)) == 1_500


async def test_a_change_is_parsed_once_for_all_watchers() -> None:
    store = a_store(WatchCache())
    watches = [store.watch(FRAMEWORKS, since=0), store.watch(FRAMEWORKS, "default", since=0)]
    watches.append(store.watch(FRAMEWORKS, selector=Selector.for_labels({"a": "b"}), since=0))
    waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
    await asyncio.sleep(0)

    await store.create(FRAMEWORKS, a_framework(labels={"a": "b"}))

    async with asyncio.timeout(TIMEOUT_SECONDS):
        received = await asyncio.gather(*waiting)
    assert received[0].object is received[1].object is received[2].object


async def test_an_idle_watcher_gets_bookmarks_if_requested() -> None:
    store = a_store(WatchCache(bookmark_every=0.01))
    watch = store.watch(PODS, since=0, bookmarks=True)
    await fill(store, 3)

    (change,) = await next_changes(watch, 1)

    assert change.type is ChangeType.BOOKMARK
    assert change.version == 4
    assert change.object == {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": "4"}}


async def test_bookmarks_are_periodic_and_do_not_affect_changes() -> None:
    store = a_store(WatchCache(bookmark_every=0.01))
    watch = store.watch(FRAMEWORKS, since=0, bookmarks=True)

    before = await next_changes(watch, 2)
    await fill(store, 1)
    after = await next_changes(watch, 2)

    assert [change.type for change in before + after] == ["BOOKMARK", "BOOKMARK", "ADDED", "BOOKMARK"]
    assert [change.version for change in before + after] == [1, 1, 2, 2]


async def test_a_watcher_from_a_future_version_gets_nothing_older() -> None:
    store = a_store(WatchCache(bookmark_every=0.01))
    watch = store.watch(FRAMEWORKS, since=4, bookmarks=True)

    (older,) = await next_changes(watch, 1)
    await fill(store, 4)
    received = [change for change in await next_changes(watch, 2) if change.type is not ChangeType.BOOKMARK]

    assert (older.type, older.version) == (ChangeType.BOOKMARK, 4)
    assert [change.version for change in received] == [5]


async def test_a_watch_times_out_with_a_last_bookmark() -> None:
    store = a_store(WatchCache())
    with_bookmarks = store.watch(FRAMEWORKS, since=0, bookmarks=True, seconds=2.02)
    without_bookmarks = store.watch(FRAMEWORKS, since=0, seconds=0.01)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        rest, received = (
            [change async for change in without_bookmarks],
            [change async for change in with_bookmarks],
        )

    assert rest == []
    assert [(change.type, change.version) for change in received] == [(ChangeType.BOOKMARK, 1)]


async def test_a_caller_can_wait_for_a_version() -> None:
    store = a_store(WatchCache())
    waiting = asyncio.ensure_future(store.wait_until_fresh(3))
    await fill(store, 1)
    await asyncio.sleep(0)
    assert not waiting.done()

    await fill(store, 1, start=1)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        await waiting
        await store.wait_until_fresh(2)


async def test_bookmarks_are_sent_only_if_requested() -> None:
    store = a_store(WatchCache(bookmark_every=0.001))
    with_bookmarks, without_bookmarks = store.watch(PODS, since=0, bookmarks=True), store.watch(PODS, since=0)
    waiting = asyncio.ensure_future(anext(without_bookmarks))

    await next_changes(with_bookmarks, 3)

    assert not waiting.done()
    waiting.cancel()


async def test_a_closed_cache_delivers_remaining_changes_and_then_an_error() -> None:
    history = WatchCache()
    store = a_store(history)
    watch = store.watch(FRAMEWORKS, since=0)
    waiting = asyncio.ensure_future(next_changes(watch, 2))
    await asyncio.sleep(0)

    await fill(store, 1)
    history.close("closed")

    with pytest.raises(Unavailable, match="closed"):
        await waiting


async def test_a_finished_watcher_is_removed() -> None:
    history = WatchCache()
    store = a_store(history)
    await fill(store, 3)

    async with aclosing(store.watch(FRAMEWORKS, since=0)) as watch:
        await anext(watch)
        assert len(history._watchers) == 1

    assert history._watchers == {}
