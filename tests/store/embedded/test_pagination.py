"""Lists of the embedded stores: eviction of pages, earlier versions, and indexes of labels."""

import time
from typing import Any

import orjson
import pytest

from launcher.core.errors import Expired
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import CONFIG_MAPS, FRAMEWORKS, PODS, Object, ResourceKind
from launcher.store.selectors import Selector, parse
from tests.builders import a_pod
from tests.store.builders import NOW, a_framework, an_object, names, uids, with_metadata


async def a_store_of(count: int, clock: Any = lambda: NOW, **bounds: int) -> MemoryStore:
    store = MemoryStore(clock, uids(), WatchCache(**bounds))
    for n in range(count):
        await store.create(FRAMEWORKS, a_framework(f"f-{n:02}"))
    return store


async def test_an_evicted_list_returns_a_token_to_continue_with() -> None:
    store = await a_store_of(5, max_entries=10)
    first = await store.list(FRAMEWORKS, limit=2)
    for n in range(20):
        await store.create(PODS, a_pod(f"p-{n}"))
        await store.list(FRAMEWORKS, limit=1)

    with pytest.raises(Expired) as caught:
        await store.list(FRAMEWORKS, limit=2, continue_token=first.continue_token)
    await store.create(FRAMEWORKS, a_framework("f-02-new"))
    second = await store.list(FRAMEWORKS, limit=2, continue_token=caught.value.token)
    third = await store.list(FRAMEWORKS, limit=2, continue_token=second.continue_token)

    assert names([*second.items, *third.items]) == ["f-02", "f-02-new", "f-03", "f-04"]
    assert second.version == third.version > first.version


async def test_an_unfinished_list_is_evicted_after_some_time() -> None:
    now = NOW
    store = await a_store_of(5, lambda: now, max_entries=0)
    first = await store.list(FRAMEWORKS, limit=2)
    await store.create(PODS, a_pod())
    assert names((await store.list(FRAMEWORKS, continue_token=first.continue_token)).items) == [
        "f-02",
        "f-03",
        "f-04",
    ]

    now += 400
    await store.list(FRAMEWORKS, limit=1)

    with pytest.raises(Expired):
        await store.list(FRAMEWORKS, continue_token=first.continue_token)


async def test_an_evicted_list_is_rebuilt_from_later_changes() -> None:
    store = await a_store_of(5)
    first = await store.list(FRAMEWORKS, limit=2)
    await store.delete(FRAMEWORKS, "default", "f-02")
    await store.create(FRAMEWORKS, a_framework("f-03-new"))
    for value in ("b", "c"):
        changed = with_metadata(await store.get(FRAMEWORKS, "default", "f-04"), labels={"a": value})
        await store.update(FRAMEWORKS, changed)

    # Another selector, so that its result is not cached.
    rest = await store.list(FRAMEWORKS, "default", continue_token=first.continue_token)

    assert names(rest.items) == ["f-02", "f-03", "f-04"]
    assert "labels" not in rest.items[2]["metadata"]
    assert rest.version == first.version


async def test_earlier_versions_can_be_listed_while_they_are_available() -> None:
    store = await a_store_of(3, max_entries=4)
    at_version = store.version
    await store.delete(FRAMEWORKS, "default", "f-01")
    await store.create(FRAMEWORKS, a_framework("f-03", labels={"a": "b"}))

    before = await store.list_raw(FRAMEWORKS, at=at_version)
    labelled = await store.list_raw(FRAMEWORKS, selector=parse("a=b"), at=at_version + 2)
    changed = with_metadata(await store.get(FRAMEWORKS, "default", "f-00"), labels={"a": "b"})
    await store.update(FRAMEWORKS, changed)
    none = await store.list_raw(FRAMEWORKS, selector=parse("a=b"), at=at_version + 1)

    assert names(map(orjson.loads, before.texts)) == ["f-00", "f-01", "f-02"]
    assert names(map(orjson.loads, labelled.texts)) == ["f-03"]
    assert none.texts == []
    assert before.version == at_version
    with pytest.raises(Expired):
        await store.list_raw(FRAMEWORKS, at=1)


async def test_a_token_of_a_future_version_is_rejected() -> None:
    store, future = await a_store_of(1), await a_store_of(9)
    token = (await future.list(FRAMEWORKS, limit=2)).continue_token

    with pytest.raises(Expired):
        await store.list(FRAMEWORKS, continue_token=token)


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        pytest.param(PODS, a_pod(), id="with a first status"),
        pytest.param(FRAMEWORKS, a_framework(), id="without a status"),
        pytest.param(
            CONFIG_MAPS,
            an_object(CONFIG_MAPS, "c", data={"metadata": {"of": "another"}}),
            id="text that looks like metadata before the metadata",
        ),
    ],
)
async def test_the_cached_text_of_an_object_is_its_json(kind: ResourceKind, obj: Object) -> None:
    store = MemoryStore(lambda: NOW, uids())
    await store.create(kind, obj)

    texts = (await store.list_raw(kind)).texts

    assert [orjson.loads(text) for text in texts] == (await store.list(kind)).items


async def test_a_list_by_label_costs_time_for_its_results_only() -> None:
    store = MemoryStore(lambda: NOW, uids())
    for n in range(20_000):
        labels = {"framework": f"f-{n // 10}", "all": "same"}
        await store.create(PODS, with_metadata(a_pod(f"p-{n:05}"), labels=labels))
    selector = Selector.for_labels({"all": "same", "framework": "f-7"})
    await store.list(PODS, selector=selector)

    begin = time.perf_counter()
    everything = await store.list(PODS, selector=parse("!nosuch"))
    whole = time.perf_counter() - begin
    begin = time.perf_counter()
    pages = [await store.list(PODS, selector=selector) for _ in range(10)]
    part = (time.perf_counter() - begin) / len(pages)

    assert len(everything.items) == 20_000
    assert names(pages[0].items) == [f"p-{n:05}" for n in range(70, 80)]
    assert part * 100 < whole


async def test_more_label_keys_than_indexes_can_be_selected() -> None:
    store = MemoryStore(lambda: NOW, uids())
    for n in range(40):
        await store.create(PODS, with_metadata(a_pod(f"p-{n:02}"), labels={f"l{n}": "x", "all": "y"}))

    for _ in range(2):
        for n in range(40):
            page = await store.list(PODS, selector=Selector.for_labels({"all": "y", f"l{n}": "x"}))
            assert names(page.items) == [f"p-{n:02}"]
