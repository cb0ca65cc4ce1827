"""The mirror is true after every kind of interruption."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from launcher.core.errors import Expired, Unavailable
from launcher.store.informer import Informer
from launcher.store.port import (
    CONFIG_MAPS,
    Change,
    Deletion,
    Key,
    Kind,
    MergePatch,
    Object,
    Page,
    Version,
    version_of,
)
from launcher.store.selectors import EVERYTHING, Where
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.controller.simulation.virtual_time import run


class Mirror:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.told: list[tuple[str, str, int]] = []

    def seen(self, key: Key, obj: Object) -> None:
        self.objects[key] = obj
        self.told.append(("seen", key[1], version_of(obj)))

    def gone(self, key: Key) -> None:
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
                    informer.wrote(informer_told)
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
        await store.delete(CONFIG_MAPS, "default", "a", Deletion())
        await asyncio.sleep(1)

        informer.wrote(answer)

        assert not mirror.objects
        task.cancel()

    run(story())


def test_a_write_of_ours_is_known_before_the_watch_tells_of_it() -> None:
    async def story() -> None:
        store, mirror = SimulatedStore(Random(1)), Mirror()
        informer = Informer(store, CONFIG_MAPS, mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        informer.wrote(await store.create(CONFIG_MAPS, a_map("a")))
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
        kind: Kind,
        namespace: str | None = None,
        where: Where = EVERYTHING,
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
        kind: Kind,
        namespace: str | None = None,
        where: Where = EVERYTHING,
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
