"""What the port cannot show of lists: how long their pages are kept, and that finding by label is no search."""

import time
from typing import Any

import pytest

from launcher.core.errors import Expired
from launcher.store.memory import MemoryStore
from launcher.store.port import FRAMEWORKS, PODS
from launcher.store.selectors import Where, parse
from tests.store.builders import NOW, a_framework, a_pod, names, uids, with_metadata


async def a_store_of(count: int, clock: Any = lambda: NOW) -> MemoryStore:
    store = MemoryStore(clock, uids())
    for n in range(count):
        await store.create(FRAMEWORKS, a_framework(f"f-{n:02}"))
    return store


async def test_a_token_of_a_list_pushed_out_is_expired_and_gives_one_that_goes_on() -> None:
    store = await a_store_of(5)
    first = await store.list(FRAMEWORKS, limit=2)
    for n in range(20):
        await store.create(PODS, a_pod(f"p-{n}"))
        await store.list(FRAMEWORKS, limit=1)

    with pytest.raises(Expired) as caught:
        await store.list(FRAMEWORKS, limit=2, token=first.token)
    await store.create(FRAMEWORKS, a_framework("f-02-new"))
    second = await store.list(FRAMEWORKS, limit=2, token=caught.value.token)
    third = await store.list(FRAMEWORKS, limit=2, token=second.token)

    assert names([*second.items, *third.items]) == ["f-02", "f-02-new", "f-03", "f-04"]
    assert second.version == third.version > first.version


async def test_a_list_that_nobody_goes_on_with_is_forgotten_after_a_while() -> None:
    now = NOW
    store = await a_store_of(5, lambda: now)
    first = await store.list(FRAMEWORKS, limit=2)
    await store.create(PODS, a_pod())
    assert names((await store.list(FRAMEWORKS, token=first.token)).items) == ["f-02", "f-03", "f-04"]

    now += 400
    await store.list(FRAMEWORKS, limit=1)

    with pytest.raises(Expired):
        await store.list(FRAMEWORKS, token=first.token)


async def test_a_token_fits_only_the_list_that_it_came_from() -> None:
    store = await a_store_of(5)
    first = await store.list(FRAMEWORKS, limit=2)
    await store.create(PODS, a_pod())

    with pytest.raises(Expired):
        await store.list(FRAMEWORKS, "default", limit=2, token=first.token)


async def test_a_list_by_label_costs_what_it_finds_not_what_there_is() -> None:
    store = MemoryStore(lambda: NOW, uids())
    for n in range(20_000):
        labels = {"framework": f"f-{n // 10}", "all": "same"}
        await store.create(PODS, with_metadata(a_pod(f"p-{n:05}"), labels=labels))
    where = Where.labelled({"all": "same", "framework": "f-7"})
    await store.list(PODS, where=where)

    begin = time.perf_counter()
    everything = await store.list(PODS, where=parse("!nosuch"))
    whole = time.perf_counter() - begin
    begin = time.perf_counter()
    pages = [await store.list(PODS, where=where) for _ in range(10)]
    part = (time.perf_counter() - begin) / len(pages)

    assert len(everything.items) == 20_000
    assert names(pages[0].items) == [f"p-{n:05}" for n in range(70, 80)]
    assert part * 100 < whole


async def test_more_labels_than_there_are_indexes_are_found_all_the_same() -> None:
    store = MemoryStore(lambda: NOW, uids())
    for n in range(40):
        await store.create(PODS, with_metadata(a_pod(f"p-{n:02}"), labels={f"l{n}": "x", "all": "y"}))

    for _ in range(2):
        for n in range(40):
            page = await store.list(PODS, where=Where.labelled({"all": "y", f"l{n}": "x"}))
            assert names(page.items) == [f"p-{n:02}"]
