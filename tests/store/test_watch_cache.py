"""What the port cannot show of the history: its bounds, who is cut, and what is read how often."""

import asyncio
from contextlib import aclosing

import pytest

from launcher.core.errors import Expired, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType
from launcher.store.selectors import Selector
from tests.store.builders import NOW, PATIENCE, a_framework, a_pod, changes, uids


def a_store(history: WatchCache) -> MemoryStore:
    return MemoryStore(lambda: NOW, uids(), history)


async def fill(store: MemoryStore, count: int, start: int = 0) -> None:
    for n in range(start, start + count):
        await store.create(FRAMEWORKS, a_framework(f"f-{n}"))


async def test_the_past_is_forgotten_beyond_a_number_of_changes() -> None:
    store = a_store(WatchCache(most_entries=10))
    await fill(store, 25)

    told = await changes(store.watch(FRAMEWORKS, since=16), 10)
    with pytest.raises(Expired, match="version 15"):
        await changes(store.watch(FRAMEWORKS, since=15), 1)

    assert [change.version for change in told] == list(range(17, 27))


async def test_the_past_is_forgotten_beyond_a_number_of_bytes() -> None:
    history = WatchCache(most_bytes=10_000)
    store = a_store(history)
    for n in range(20):
        await store.create(FRAMEWORKS, a_framework(f"f-{n}", annotations={"a": "x" * 1000}))

    assert len(await changes(store.watch(FRAMEWORKS, since=history.start), 21 - history.start)) >= 7
    with pytest.raises(Expired):
        await changes(store.watch(FRAMEWORKS, since=10), 1)


async def test_at_least_ten_thousand_changes_are_known() -> None:
    store = a_store(WatchCache())
    await fill(store, 10_001)

    assert (await changes(store.watch(FRAMEWORKS, since=2), 10_000))[-1].version == 10_002


async def test_a_watcher_who_lags_behind_goes_on_as_long_as_the_past_is_known() -> None:
    store = a_store(WatchCache(most_entries=5_000))
    watch = store.watch(FRAMEWORKS, since=0)
    await fill(store, 1)
    first = await changes(watch, 1)

    await fill(store, 4_000, start=1)

    told = first + await changes(watch, 4_000)
    assert [change.version for change in told] == list(range(2, 4_003))


async def test_a_watcher_who_does_not_read_is_cut_and_holds_nobody_up() -> None:
    store = a_store(WatchCache(most_entries=2_000))
    slow, quick = store.watch(FRAMEWORKS, since=0), store.watch(FRAMEWORKS, since=0)
    await fill(store, 1)
    await changes(slow, 1)
    await changes(quick, 1)

    for begin in range(1, 6_001, 500):
        await fill(store, 500, start=begin)
        assert len(await changes(quick, 500)) == 500

    with pytest.raises(Expired):
        await changes(slow, 1)


async def test_a_lagging_watcher_of_few_objects_is_not_cut_by_changes_of_others() -> None:
    store = a_store(WatchCache(most_entries=3_000))
    watch = store.watch(PODS, since=0)
    waiting = asyncio.ensure_future(changes(watch, 1))
    await asyncio.sleep(0)
    await store.create(PODS, a_pod("first"))
    await waiting

    await fill(store, 10_000)
    for n in range(1_500):
        await store.create(PODS, a_pod(f"p-{n}"))

    assert len(await changes(watch, 1_500)) == 1_500


async def test_a_change_is_read_once_for_all_its_watchers() -> None:
    store = a_store(WatchCache())
    watches = [store.watch(FRAMEWORKS, since=0), store.watch(FRAMEWORKS, "default", since=0)]
    watches.append(store.watch(FRAMEWORKS, where=Selector.labelled({"a": "b"}), since=0))
    waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
    await asyncio.sleep(0)

    await store.create(FRAMEWORKS, a_framework(labels={"a": "b"}))

    async with asyncio.timeout(PATIENCE):
        told = await asyncio.gather(*waiting)
    assert told[0].object is told[1].object is told[2].object


async def test_an_idle_watcher_who_asked_hears_which_version_was_reached() -> None:
    store = a_store(WatchCache(bookmark_every=0.01))
    watch = store.watch(PODS, since=0, bookmarks=True)
    await fill(store, 3)

    (change,) = await changes(watch, 1)

    assert change.happened is ChangeType.BOOKMARK
    assert change.version == 4
    assert change.object == {"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": "4"}}


async def test_bookmarks_keep_coming_and_change_nothing_about_the_changes() -> None:
    store = a_store(WatchCache(bookmark_every=0.01))
    watch = store.watch(FRAMEWORKS, since=0, bookmarks=True)

    before = await changes(watch, 2)
    await fill(store, 1)
    after = await changes(watch, 2)

    assert [change.happened for change in before + after] == ["BOOKMARK", "BOOKMARK", "ADDED", "BOOKMARK"]
    assert [change.version for change in before + after] == [1, 1, 2, 2]


async def test_a_watcher_who_began_ahead_hears_nothing_older() -> None:
    store = a_store(WatchCache(bookmark_every=0.01))
    watch = store.watch(FRAMEWORKS, since=4, bookmarks=True)

    (early,) = await changes(watch, 1)
    await fill(store, 4)
    told = [change for change in await changes(watch, 2) if change.happened is not ChangeType.BOOKMARK]

    assert (early.happened, early.version) == (ChangeType.BOOKMARK, 4)
    assert [change.version for change in told] == [5]


async def test_a_watch_ends_when_its_time_is_over_with_a_last_bookmark_before() -> None:
    store = a_store(WatchCache())
    asked = store.watch(FRAMEWORKS, since=0, bookmarks=True, seconds=2.02)
    silent = store.watch(FRAMEWORKS, since=0, seconds=0.01)

    async with asyncio.timeout(PATIENCE):
        rest, told = [change async for change in silent], [change async for change in asked]

    assert rest == []
    assert [(change.happened, change.version) for change in told] == [(ChangeType.BOOKMARK, 1)]


async def test_whoever_waits_for_a_version_is_told_when_it_is_reached() -> None:
    store = a_store(WatchCache())
    waiting = asyncio.ensure_future(store.wait_until_fresh(3))
    await fill(store, 1)
    await asyncio.sleep(0)
    assert not waiting.done()

    await fill(store, 1, start=1)

    async with asyncio.timeout(PATIENCE):
        await waiting
        await store.wait_until_fresh(2)


async def test_nobody_who_did_not_ask_gets_a_bookmark() -> None:
    store = a_store(WatchCache(bookmark_every=0.001))
    asked, silent = store.watch(PODS, since=0, bookmarks=True), store.watch(PODS, since=0)
    waiting = asyncio.ensure_future(anext(silent))

    await changes(asked, 3)

    assert not waiting.done()
    waiting.cancel()


async def test_watchers_hear_what_was_left_and_then_the_end() -> None:
    history = WatchCache()
    store = a_store(history)
    watch = store.watch(FRAMEWORKS, since=0)
    waiting = asyncio.ensure_future(changes(watch, 2))
    await asyncio.sleep(0)

    await fill(store, 1)
    history.end("closed")

    with pytest.raises(Unavailable, match="closed"):
        await waiting


async def test_a_watcher_who_is_done_leaves_nothing_behind() -> None:
    history = WatchCache()
    store = a_store(history)
    await fill(store, 3)

    async with aclosing(store.watch(FRAMEWORKS, since=0)) as watch:
        await anext(watch)
        assert len(history._followers) == 1

    assert history._followers == {}
