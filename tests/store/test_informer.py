"""The mirror is true after every kind of interruption."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from launcher.core.errors import Expired, Forbidden, LauncherError, NotFound, TooManyRequests, Unavailable
from launcher.store.informer import Informer
from launcher.store.interface import (
    CONFIG_MAPS,
    Change,
    ChangeType,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    Page,
    ResourceKind,
    Version,
    version_of,
)
from launcher.store.selectors import EVERYTHING, Selector
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.controller.simulation.virtual_time import run


class Mirror:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.told: list[tuple[str, str, int]] = []

    def on_upsert(self, key: Key, obj: Object) -> None:
        self.objects[key] = obj
        self.told.append(("seen", key[1], version_of(obj)))

    def on_delete(self, key: Key) -> None:
        del self.objects[key]
        self.told.append(("gone", key[1], 0))


def a_map(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {},
    }


async def contents(store: SimulatedStore) -> dict[Key, Object]:
    return {("default", obj["metadata"]["name"]): obj for obj in (await store.list(CONFIG_MAPS)).items}


FAULTS = {
    "calm": Faults(),
    "streams cut": Faults(cut_streams=0.2),
    "events doubled": Faults(doubled_events=0.5),
    "events late": Faults(late_events=0.5),
    "versions expired": Faults(cut_streams=0.2, expired=0.5),
    "lists stale": Faults(cut_streams=0.3, expired=0.5, stale_lists=0.5),
    "calls refused": Faults(refusals=0.3, cut_streams=0.2, expired=0.2),
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("seed", range(5))
def test_the_mirror_ends_up_true(faults: Faults, seed: int) -> None:
    faults = replace(faults, old_pages={})

    async def story() -> None:
        random = Random(seed)
        store, mirror = SimulatedStore(random), Mirror()
        informer = Informer(FaultyStore(store, faults, random), CONFIG_MAPS, mirror)
        task = asyncio.create_task(informer.run())
        numbers = count()
        for _ in range(60):
            there = sorted(await contents(store))
            what = random.random()
            if what < 0.4 or not there:
                informer_told = await store.create(CONFIG_MAPS, a_map(f"m{next(numbers)}"))
                if random.random() < 0.5:
                    informer.upsert(informer_told)
            elif what < 0.7:
                patch = MergePatch({"data": {"n": str(next(numbers))}})
                await store.patch(CONFIG_MAPS, *random.choice(there), patch)
            else:
                await store.delete(CONFIG_MAPS, *random.choice(there))
            await asyncio.sleep(random.random())
        faults.over = True
        await asyncio.sleep(120)

        assert mirror.objects == await contents(store)
        task.cancel()

    run(story())


def test_each_object_is_told_in_order_and_no_version_twice() -> None:
    async def story() -> None:
        random, mirror = Random(1), Mirror()
        store = SimulatedStore(random)
        informer = Informer(FaultyStore(store, Faults(doubled_events=0.5), random), CONFIG_MAPS, mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await store.create(CONFIG_MAPS, a_map("a"))
        for number in range(20):
            await store.patch(CONFIG_MAPS, "default", "a", MergePatch({"data": {"n": str(number)}}))
            await asyncio.sleep(1)

        versions = [version for what, _, version in mirror.told if what == "seen"]
        assert versions == sorted(set(versions))
        assert len(versions) == 21
        task.cancel()

    run(story())


def test_an_answer_that_comes_after_the_object_is_gone_does_not_bring_it_back() -> None:
    async def story() -> None:
        store, mirror = SimulatedStore(Random(1)), Mirror()
        informer = Informer(store, CONFIG_MAPS, mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        answer = await store.create(CONFIG_MAPS, a_map("a"))
        await store.delete(CONFIG_MAPS, "default", "a", DeleteOptions())
        await asyncio.sleep(1)

        informer.upsert(answer)

        assert not mirror.objects
        task.cancel()

    run(story())


def test_a_write_of_ours_is_known_before_the_watch_tells_of_it() -> None:
    async def story() -> None:
        store, mirror = SimulatedStore(Random(1)), Mirror()
        informer = Informer(store, CONFIG_MAPS, mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        informer.upsert(await store.create(CONFIG_MAPS, a_map("a")))
        assert ("default", "a") in mirror.objects
        await asyncio.sleep(1)
        assert [what for what, *_ in mirror.told] == ["seen"], "and the watch then tells nothing new"
        task.cancel()

    run(story())


class _Closing(SimulatedStore):
    """Streams end at once, or fail."""

    calls = 0
    error: Exception | None = None

    async def watch(  # type: ignore[override]  # an iterator all the same
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        nothing: tuple[Change, ...] = ()
        for change in nothing:
            yield change

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        self.calls += 1
        return await super().list(kind, namespace, where, limit=limit, token=token)


@pytest.mark.parametrize(
    "error", [None, Expired("old"), Unavailable("down")], ids=["closed", "expired", "down"]
)
def test_a_store_in_trouble_is_asked_less_and_less_often(error: Exception | None) -> None:
    async def story() -> None:
        store = _Closing(Random(1))
        store.error = error
        task = asyncio.create_task(Informer(store, CONFIG_MAPS, Mirror()).run())
        await asyncio.sleep(600)

        assert 10 < store.calls < 100
        task.cancel()

    run(story())


class _Counted(SimulatedStore):
    """Counts lists and watches; either fails with what stands first in its row."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.lists: list[int | None] = []
        self.watches: list[Version] = []
        self.times: list[float] = []
        self.fail_lists: list[LauncherError | None] = []
        self.fail_watches: list[LauncherError | None] = []

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        self.lists.append(limit)
        self.times.append(asyncio.get_running_loop().time())
        if self.fail_lists and (error := self.fail_lists.pop(0)) is not None:
            raise error
        return await super().list(kind, namespace, where, limit=limit, token=token)

    async def watch(  # type: ignore[override]  # an iterator all the same
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        self.watches.append(since)
        if self.fail_watches and (error := self.fail_watches.pop(0)) is not None:
            raise error
        async for change in super().watch(kind, namespace, where, since=since, bookmarks=bookmarks):
            yield change
            if self.fail_watches and (error := self.fail_watches.pop(0)) is not None:
                raise error


async def informed(store: SimulatedStore, mirror: Mirror) -> tuple[Informer, "asyncio.Task[None]"]:
    """An informer whose first list is through."""
    informer = Informer(store, CONFIG_MAPS, mirror, chance=lambda: 0.5)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    return informer, task


def test_a_store_that_was_away_is_watched_on_from_where_it_was_left() -> None:
    async def story() -> None:
        store, mirror = _Counted(), Mirror()
        _, task = await informed(store, mirror)
        store.fail_watches = [Unavailable("cut"), *[Unavailable("away")] * 5]
        first = await store.create(CONFIG_MAPS, a_map("a"))
        await asyncio.sleep(1)
        await store.create(CONFIG_MAPS, a_map("b"))
        await store.delete(CONFIG_MAPS, "default", "a")
        await asyncio.sleep(60)

        assert mirror.objects == await contents(store)
        assert len(store.lists) == 2, "the informer's first one, and this test's own"
        assert store.watches[-1] == version_of(first)
        task.cancel()

    run(story())


def test_a_bookmark_moves_the_place_from_which_the_watch_goes_on() -> None:
    class Bookmarked(_Counted):
        async def watch(  # type: ignore[override]  # an iterator all the same
            self, *args: object, since: Version, **more: object
        ) -> AsyncIterator[Change]:
            self.watches.append(since)
            if len(self.watches) == 1:
                yield Change(ChangeType.BOOKMARK, {}, since + 41)
                raise Unavailable("cut")
            await asyncio.sleep(1000)

    async def story() -> None:
        store = Bookmarked()
        _, task = await informed(store, Mirror())
        await asyncio.sleep(60)

        assert store.watches[1] == store.watches[0] + 41
        assert len(store.lists) == 1
        task.cancel()

    run(story())


def test_after_a_version_has_expired_everything_is_listed_once() -> None:
    async def story() -> None:
        store, mirror = _Counted(), Mirror()
        _, task = await informed(store, mirror)
        store.fail_watches = [Expired("too old")]
        await store.create(CONFIG_MAPS, a_map("a"))
        await asyncio.sleep(60)

        assert len(store.lists) == 2
        assert set(mirror.objects) == {("default", "a")}
        task.cancel()

    run(story())


def test_a_list_that_expires_half_way_starts_again_and_loses_nothing() -> None:
    async def story() -> None:
        store, mirror = _Counted(), Mirror()
        for number in range(1200):
            await store.create(CONFIG_MAPS, a_map(f"m{number:04}"))
        _, task = await informed(store, mirror)
        pages = len(store.lists)
        store.fail_watches = [Expired("too old")]
        store.fail_lists = [None, Expired("that list is too old to go on with")]
        await store.create(CONFIG_MAPS, a_map("new"))
        await asyncio.sleep(60)

        assert not any(what == "gone" for what, *_ in mirror.told)
        assert len(mirror.objects) == 1201
        assert store.lists[:pages] == [500, 500, 500]
        assert store.lists[pages:] == [500, 500, None], "at once, which cannot expire"
        task.cancel()

    run(story())


@pytest.mark.parametrize(
    "error", [Unavailable("down"), Forbidden("no rights yet"), NotFound("no such kind yet")], ids=str
)
def test_a_first_list_that_does_not_get_through_is_tried_until_it_does(error: LauncherError) -> None:
    async def story() -> None:
        store, mirror = _Counted(), Mirror()
        store.fail_lists = [error] * 3
        await store.create(CONFIG_MAPS, a_map("a"))

        _, task = await informed(store, mirror)

        assert set(mirror.objects) == {("default", "a")}
        assert not store.fail_lists
        task.cancel()

    run(story())


def test_a_store_that_says_how_long_to_wait_is_left_alone_for_so_long() -> None:
    async def story() -> None:
        store = _Counted()
        store.fail_lists = [TooManyRequests("later", retry_after=7.0)]
        _, task = await informed(store, Mirror())

        assert store.times == [0.0, 7.0]
        task.cancel()

    run(story())


def test_those_who_wait_for_the_same_store_do_not_come_back_together() -> None:
    async def story() -> None:
        stores = [_Counted() for _ in range(20)]
        tasks = []
        for number, store in enumerate(stores):
            store.fail_lists = [Unavailable("down")] * 4
            informer = Informer(store, CONFIG_MAPS, Mirror(), chance=Random(number).random)
            tasks.append(asyncio.create_task(informer.run()))
        await asyncio.sleep(60)

        last = sorted(store.times[-1] for store in stores)
        assert len(set(last)) == 20
        assert last[-1] - last[0] > 0.5
        for task in tasks:
            task.cancel()

    run(story())
