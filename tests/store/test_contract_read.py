"""What every store promises of lists and watches, tried on each of them through the port alone."""

import asyncio

import pytest

from launcher.core.errors import BadRequest
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType, MergePatch, Object, Store
from launcher.store.selectors import Selector, parse
from tests.store.builders import (
    PATIENCE,
    a_framework,
    a_pod,
    changes,
    changes_until,
    names,
    now_in,
    version_of,
    with_,
    with_metadata,
)


async def some_frameworks(store: Store, count: int) -> list[Object]:
    return [await store.create(FRAMEWORKS, a_framework(f"f-{n:02}")) for n in range(count)]


# List


async def test_a_list_of_nothing_has_a_version_to_watch_from(store: Store) -> None:
    page = await store.list(FRAMEWORKS)

    assert page.items == []
    assert page.continue_token is None
    assert await changes_until(store, FRAMEWORKS, page.version) == []


async def test_a_list_is_in_order_of_namespace_and_name(store: Store) -> None:
    for namespace, name in (("b", "y"), ("a", "z"), ("b", "x"), ("a", "y"), ("a-b", "a")):
        await store.create(FRAMEWORKS, a_framework(name, namespace))

    page = await store.list(FRAMEWORKS)

    found = [(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in page.items]
    assert found == [("a", "y"), ("a", "z"), ("a-b", "a"), ("b", "x"), ("b", "y")]


async def test_a_list_of_one_namespace_holds_nothing_else(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework("x", "one"))
    await store.create(FRAMEWORKS, a_framework("y", "two"))
    await store.create(PODS, a_pod("z", "one"))

    assert names((await store.list(FRAMEWORKS, "one")).items) == ["x"]
    assert names((await store.list(FRAMEWORKS, "three")).items) == []


async def test_a_list_holds_every_write_acknowledged_before(store: Store) -> None:
    made = await store.create(FRAMEWORKS, a_framework())
    assert (await store.list(FRAMEWORKS)).items == [made]
    after = await store.update_status(FRAMEWORKS, with_(made, status={"x": 1}))
    assert (await store.list(FRAMEWORKS)).items == [after]
    await store.delete(FRAMEWORKS, "default", "mnist")
    assert (await store.list(FRAMEWORKS)).items == []


LABELLED = {
    "none": {},
    "a1": {"a": "1", "both": "x"},
    "a2": {"a": "2", "both": "x"},
    "a10": {"a": "10"},
    "empty": {"a": ""},
}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", ["a1", "a10", "a2", "empty", "none"]),
        ("a", ["a1", "a10", "a2", "empty"]),
        ("!a", ["none"]),
        ("a=1", ["a1"]),
        ("a==1", ["a1"]),
        ("a=", ["empty"]),
        ("a!=1", ["a10", "a2", "empty", "none"]),
        ("a in (1,2)", ["a1", "a2"]),
        ("a notin (1,2)", ["a10", "empty", "none"]),
        ("a>1", ["a10", "a2"]),
        ("a<10", ["a1", "a2"]),
        ("a=1,both=x", ["a1"]),
        ("both=x,a!=1", ["a2"]),
        ("a=nosuch", []),
        ("nosuch=1", []),
    ],
)
async def test_a_list_by_label_holds_what_the_selector_says(
    store: Store, selector: str, selected: list[str]
) -> None:
    for name, labels in LABELLED.items():
        await store.create(FRAMEWORKS, a_framework(name, labels=labels))

    assert names((await store.list(FRAMEWORKS, where=parse(selector))).items) == selected
    assert names((await store.list(FRAMEWORKS, "default", parse(selector))).items) == selected
    assert names((await store.list(FRAMEWORKS, "other", parse(selector))).items) == []


async def test_a_list_by_label_follows_every_change_of_labels(store: Store) -> None:
    where = Selector.labelled({"team": "a"})
    made = await store.create(FRAMEWORKS, a_framework("one", labels={"team": "a"}))
    await store.create(FRAMEWORKS, a_framework("two", labels={"team": "b"}))
    assert names((await store.list(FRAMEWORKS, where=where)).items) == ["one"]

    await store.update(FRAMEWORKS, with_metadata(made, labels={"team": "b"}))
    await store.patch(FRAMEWORKS, "default", "two", MergePatch({"metadata": {"labels": {"team": "a"}}}))
    assert names((await store.list(FRAMEWORKS, where=where)).items) == ["two"]

    await store.delete(FRAMEWORKS, "default", "two")
    assert names((await store.list(FRAMEWORKS, where=where)).items) == []


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("metadata.name=b", ["b"]),
        ("metadata.name!=b", ["a", "c"]),
        ("metadata.namespace=default", ["a", "b", "c"]),
        ("status.phase=Running", ["b"]),
        ("status.phase!=Running,spec.nodeName=", ["c"]),
        ("spec.nodeName=node-1", ["a", "b"]),
        ("metadata.name=b,spec.nodeName=node-2", []),
    ],
)
async def test_a_list_by_field_holds_what_the_selector_says(
    store: Store, selector: str, selected: list[str]
) -> None:
    await store.create(PODS, a_pod("a", nodeName="node-1"))
    pod = await store.create(PODS, a_pod("b", nodeName="node-1"))
    await store.create(PODS, a_pod("c"))
    await store.update_status(PODS, with_(pod, status={"phase": "Running"}))

    assert names((await store.list(PODS, where=parse(fields=selector))).items) == selected


async def test_pages_together_are_the_list_at_one_version(store: Store) -> None:
    made = await some_frameworks(store, 5)
    where = parse("!other")

    first = await store.list(FRAMEWORKS, "default", where, limit=2)
    await store.create(FRAMEWORKS, a_framework("f-02-between"))
    await store.delete(FRAMEWORKS, "default", "f-03")
    await store.update(FRAMEWORKS, with_(made[4], spec={}))
    second = await store.list(FRAMEWORKS, "default", where, limit=2, token=first.continue_token)
    third = await store.list(FRAMEWORKS, "default", where, limit=2, token=second.continue_token)

    assert [*first.items, *second.items, *third.items] == made
    assert first.version == second.version == third.version >= version_of(made[-1])
    assert third.continue_token is None
    # A store may not know how many of the rest a selector selects.
    assert [page.remaining for page in (first, second, third)] in ([3, 1, 0], [None, None, 0])


async def test_a_page_can_be_asked_for_again(store: Store) -> None:
    await some_frameworks(store, 4)
    first = await store.list(FRAMEWORKS, limit=1)

    second = await store.list(FRAMEWORKS, limit=1, token=first.continue_token)
    await store.delete(FRAMEWORKS, "default", "f-01")
    again = await store.list(FRAMEWORKS, limit=1, token=first.continue_token)
    rest = await store.list(FRAMEWORKS, token=first.continue_token)

    assert second == again
    assert names(rest.items) == ["f-01", "f-02", "f-03"]


@pytest.mark.parametrize("limit", [None, 0, -1, 3, 4])
async def test_a_list_within_the_limit_is_one_page(store: Store, limit: int | None) -> None:
    made = await some_frameworks(store, 3)

    page = await store.list(FRAMEWORKS, limit=limit)

    assert (page.items, page.continue_token) == (made, None)


@pytest.mark.parametrize("token", ["", "x", "!!!", "bm9uc2Vuc2U=", "WzFd", "W3RydWUsICJhIiwgImIiXQ==", "é"])
async def test_a_token_that_is_none_of_ours_is_refused(store: Store, token: str) -> None:
    with pytest.raises(BadRequest):
        await store.list(FRAMEWORKS, limit=1, token=token)


# Watch


async def test_a_watch_from_a_list_misses_and_repeats_nothing(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework("before"))
    since = (await store.list(FRAMEWORKS)).version
    watch = store.watch(FRAMEWORKS, since=since)

    made = await store.create(FRAMEWORKS, a_framework())
    after = await store.update(FRAMEWORKS, with_(made, spec={}))
    status = await store.update_status(FRAMEWORKS, with_(after, status={"x": 1}))
    await store.create(PODS, a_pod())
    await store.delete(FRAMEWORKS, "default", "mnist")
    told = await changes(watch, 4)

    assert [change.happened for change in told] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [change.object for change in told[:3]] == [made, after, status]
    gone = told[3].object
    assert gone == with_metadata(status, resourceVersion=gone["metadata"]["resourceVersion"])
    versions = [change.version for change in told]
    assert versions == sorted(set(versions))
    assert versions == [version_of(change.object) for change in told]


async def test_a_watch_waits_for_what_is_to_come(store: Store) -> None:
    watch = store.watch(FRAMEWORKS, since=await now_in(store))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not waiting.done()

    made = await store.create(FRAMEWORKS, a_framework())

    async with asyncio.timeout(PATIENCE):
        assert (await waiting).object == made


async def test_a_watch_can_begin_in_the_past(store: Store) -> None:
    made = await some_frameworks(store, 4)

    told = await changes_until(store, FRAMEWORKS, version_of(made[1]))

    assert told == [(ChangeType.ADDED, "f-02"), (ChangeType.ADDED, "f-03")]


async def test_a_watch_of_one_namespace_hears_of_nothing_else(store: Store) -> None:
    since = await now_in(store)
    await store.create(FRAMEWORKS, a_framework("x", "one"))
    await store.create(FRAMEWORKS, a_framework("y", "two"))

    told = await changes_until(store, FRAMEWORKS, since, namespace="two")

    assert told == [(ChangeType.ADDED, "y")]


@pytest.mark.parametrize("live", [True, False], ids=["as it happens", "afterwards"])
async def test_an_object_is_added_when_it_begins_to_match_and_deleted_when_it_ceases(
    store: Store, live: bool
) -> None:
    since = await now_in(store)
    watch = store.watch(FRAMEWORKS, where=Selector.labelled({"team": "a"}), since=since)
    waiting = asyncio.ensure_future(anext(watch)) if live else None
    await asyncio.sleep(0)

    made = await store.create(FRAMEWORKS, a_framework(labels={"team": "b"}))
    begins = await store.update(FRAMEWORKS, with_metadata(made, labels={"team": "a"}))
    stays = await store.update_status(FRAMEWORKS, with_(begins, status={"x": 1}))
    ceases = await store.update(FRAMEWORKS, with_metadata(with_(stays, spec={}), labels={"team": "b"}))
    await store.update_status(FRAMEWORKS, with_(ceases, status={"x": 2}))
    await store.delete(FRAMEWORKS, "default", "mnist")
    last = await store.create(FRAMEWORKS, a_framework("last", labels={"team": "a"}))
    told = [await waiting] if waiting else []
    told += await changes(watch, 4 - len(told))

    assert [change.happened for change in told] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [told[0].object, told[1].object, told[3].object] == [begins, stays, last]
    assert told[2].object == with_metadata(stays, resourceVersion=ceases["metadata"]["resourceVersion"])
    assert told[2].version == version_of(ceases)


async def test_a_watch_by_field_sees_objects_come_and_go(store: Store) -> None:
    since = await now_in(store)
    where = parse(fields="status.phase=Running")
    pod = await store.create(PODS, a_pod())
    running = await store.update_status(PODS, with_(pod, status={"phase": "Running"}))
    ended = await store.update_status(PODS, with_(running, status={"phase": "Failed"}))

    told = await changes(store.watch(PODS, where=where, since=since), 2)

    assert [change.happened for change in told] == ["ADDED", "DELETED"]
    assert told[1].object == with_metadata(running, resourceVersion=ended["metadata"]["resourceVersion"])


async def test_a_watch_by_name_hears_of_that_object_alone(store: Store) -> None:
    since = await now_in(store)
    await some_frameworks(store, 3)
    await store.delete(FRAMEWORKS, "default", "f-01")

    told = await changes(store.watch(FRAMEWORKS, where=Selector.named("f-01"), since=since), 2)

    assert [(change.happened, change.object["metadata"]["name"]) for change in told] == [
        (ChangeType.ADDED, "f-01"),
        (ChangeType.DELETED, "f-01"),
    ]


async def test_a_watch_from_a_version_to_come_is_silent_until_then(store: Store) -> None:
    made = await store.create(FRAMEWORKS, a_framework())
    watch = store.watch(FRAMEWORKS, since=version_of(made) + 2)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)

    for n in range(4):
        await store.create(FRAMEWORKS, a_framework(f"f-{n}"))

    async with asyncio.timeout(PATIENCE):
        first = await waiting
    assert first.version > version_of(made) + 2


async def test_all_watchers_are_told_the_same(store: Store) -> None:
    since = await now_in(store)
    watches = [store.watch(FRAMEWORKS, since=since) for _ in range(5)]
    made = await some_frameworks(store, 3)

    told = [await changes(watch, 3) for watch in watches]

    assert all([change.object for change in heard] == made for heard in told)


async def test_a_watcher_who_leaves_is_missed_by_nobody(store: Store) -> None:
    since = await now_in(store)
    leaves = asyncio.create_task(changes(store.watch(FRAMEWORKS, since=since), 1))
    stays = store.watch(FRAMEWORKS, since=since)
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)

    made = await store.create(FRAMEWORKS, a_framework())

    assert [change.object for change in await changes(stays, 1)] == [made]


async def _followed(store: Store) -> dict[str, Object]:
    """What a list and the changes after it add up to when ``the-end`` comes."""
    page = await store.list(FRAMEWORKS)
    seen = {obj["metadata"]["name"]: obj for obj in page.items}
    reached = page.version
    while True:  # a busy API server ends watches of those who do not listen fast enough
        async for change in store.watch(FRAMEWORKS, since=reached):
            name, reached = change.object["metadata"]["name"], change.version
            if name == "the-end":
                return seen
            if change.happened is ChangeType.DELETED:
                del seen[name]
            else:
                assert (name in seen) is (change.happened is ChangeType.MODIFIED)
                seen[name] = change.object


async def test_list_and_watch_together_give_the_state_at_any_moment(store: Store) -> None:
    async def writer(k: int) -> None:
        for n in range(10):
            made = await store.create(FRAMEWORKS, a_framework(f"f-{k}-{n}"))
            made = await store.update_status(FRAMEWORKS, with_(made, status={"n": n}))
            if n % 3 == 0:
                await store.delete(FRAMEWORKS, "default", made["metadata"]["name"])

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        writers = [tasks.create_task(writer(k)) for k in range(8)]
        readers = []
        for _ in range(10):
            readers.append(tasks.create_task(_followed(store)))
            await asyncio.sleep(0.002)  # so that they begin at different moments
        await asyncio.gather(*writers)
        state = {obj["metadata"]["name"]: obj for obj in (await store.list(FRAMEWORKS)).items}
        await store.create(FRAMEWORKS, a_framework("the-end"))

    assert len(state) == 48
    for each in readers:
        assert each.result() == state
