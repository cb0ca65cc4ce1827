"""The contract of every store: lists and watches."""

import asyncio

import pytest

from launcher.core.errors import BadRequest
from launcher.store.interface import FRAMEWORKS, PODS, ChangeType, MergePatch, Object, Store
from launcher.store.selectors import Selector, parse
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS
from tests.store.builders import (
    a_framework,
    changes_since,
    current_version,
    names,
    next_changes,
    version_of,
    with_,
    with_metadata,
)


async def create_frameworks(store: Store, count: int) -> list[Object]:
    return [await store.create(FRAMEWORKS, a_framework(f"f-{n:02}")) for n in range(count)]


# List


async def test_an_empty_list_has_a_version_to_watch_from(store: Store) -> None:
    page = await store.list(FRAMEWORKS)

    assert page.items == []
    assert page.continue_token is None
    assert await changes_since(store, FRAMEWORKS, page.version) == []


async def test_a_list_is_in_order_of_namespace_and_name(store: Store) -> None:
    for namespace, name in (("b", "y"), ("a", "z"), ("b", "x"), ("a", "y"), ("a-b", "a")):
        await store.create(FRAMEWORKS, a_framework(name, namespace))

    page = await store.list(FRAMEWORKS)

    found = [(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in page.items]
    assert found == [("a", "y"), ("a", "z"), ("a-b", "a"), ("b", "x"), ("b", "y")]


async def test_a_list_of_one_namespace_contains_only_its_objects(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework("x", "one"))
    await store.create(FRAMEWORKS, a_framework("y", "two"))
    await store.create(PODS, a_pod("z", namespace="one"))

    assert names((await store.list(FRAMEWORKS, "one")).items) == ["x"]
    assert names((await store.list(FRAMEWORKS, "three")).items) == []


async def test_a_list_contains_every_acknowledged_write(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())
    assert (await store.list(FRAMEWORKS)).items == [created]
    after = await store.update_status(FRAMEWORKS, with_(created, status={"x": 1}))
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
async def test_a_list_by_label_contains_the_selected_objects(
    store: Store, selector: str, selected: list[str]
) -> None:
    for name, labels in LABELLED.items():
        await store.create(FRAMEWORKS, a_framework(name, labels=labels))

    assert names((await store.list(FRAMEWORKS, selector=parse(selector))).items) == selected
    assert names((await store.list(FRAMEWORKS, "default", parse(selector))).items) == selected
    assert names((await store.list(FRAMEWORKS, "other", parse(selector))).items) == []


async def test_a_list_by_label_follows_every_change_of_labels(store: Store) -> None:
    selector = Selector.for_labels({"team": "a"})
    created = await store.create(FRAMEWORKS, a_framework("one", labels={"team": "a"}))
    await store.create(FRAMEWORKS, a_framework("two", labels={"team": "b"}))
    assert names((await store.list(FRAMEWORKS, selector=selector)).items) == ["one"]

    await store.update(FRAMEWORKS, with_metadata(created, labels={"team": "b"}))
    await store.patch(FRAMEWORKS, "default", "two", MergePatch({"metadata": {"labels": {"team": "a"}}}))
    assert names((await store.list(FRAMEWORKS, selector=selector)).items) == ["two"]

    await store.delete(FRAMEWORKS, "default", "two")
    assert names((await store.list(FRAMEWORKS, selector=selector)).items) == []


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
async def test_a_list_by_field_contains_the_selected_objects(
    store: Store, selector: str, selected: list[str]
) -> None:
    await store.create(PODS, a_pod("a", nodeName="node-1"))
    pod = await store.create(PODS, a_pod("b", nodeName="node-1"))
    await store.create(PODS, a_pod("c"))
    await store.update_status(PODS, with_(pod, status={"phase": "Running"}))

    assert names((await store.list(PODS, selector=parse(fields=selector))).items) == selected


async def test_all_pages_of_a_list_have_the_same_version(store: Store) -> None:
    created = await create_frameworks(store, 5)
    selector = parse("!other")

    first = await store.list(FRAMEWORKS, "default", selector, limit=2)
    await store.create(FRAMEWORKS, a_framework("f-02-between"))
    await store.delete(FRAMEWORKS, "default", "f-03")
    await store.update(FRAMEWORKS, with_(created[4], spec={}))
    second = await store.list(FRAMEWORKS, "default", selector, limit=2, continue_token=first.continue_token)
    third = await store.list(FRAMEWORKS, "default", selector, limit=2, continue_token=second.continue_token)

    assert [*first.items, *second.items, *third.items] == created
    assert first.version == second.version == third.version >= version_of(created[-1])
    assert third.continue_token is None
    # With a selector, a store may not know the number of remaining objects.
    assert [page.remaining for page in (first, second, third)] in ([3, 1, 0], [None, None, 0])


async def test_a_page_can_be_requested_again(store: Store) -> None:
    await create_frameworks(store, 4)
    first = await store.list(FRAMEWORKS, limit=1)

    second = await store.list(FRAMEWORKS, limit=1, continue_token=first.continue_token)
    await store.delete(FRAMEWORKS, "default", "f-01")
    again = await store.list(FRAMEWORKS, limit=1, continue_token=first.continue_token)
    rest = await store.list(FRAMEWORKS, continue_token=first.continue_token)

    assert second == again
    assert names(rest.items) == ["f-01", "f-02", "f-03"]


@pytest.mark.parametrize("limit", [None, 0, -1, 3, 4])
async def test_a_list_within_the_limit_is_one_page(store: Store, limit: int | None) -> None:
    created = await create_frameworks(store, 3)

    page = await store.list(FRAMEWORKS, limit=limit)

    assert (page.items, page.continue_token) == (created, None)


@pytest.mark.parametrize("token", ["", "x", "!!!", "bm9uc2Vuc2U=", "WzFd", "W3RydWUsICJhIiwgImIiXQ==", "é"])
async def test_an_invalid_token_is_rejected(store: Store, token: str) -> None:
    with pytest.raises(BadRequest):
        await store.list(FRAMEWORKS, limit=1, continue_token=token)


# Watch


async def test_a_watch_from_a_list_misses_and_repeats_nothing(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework("before"))
    since = (await store.list(FRAMEWORKS)).version
    watch = store.watch(FRAMEWORKS, since=since)

    created = await store.create(FRAMEWORKS, a_framework())
    after = await store.update(FRAMEWORKS, with_(created, spec={}))
    status = await store.update_status(FRAMEWORKS, with_(after, status={"x": 1}))
    await store.create(PODS, a_pod())
    await store.delete(FRAMEWORKS, "default", "mnist")
    received = await next_changes(watch, 4)

    assert [change.type for change in received] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [change.object for change in received[:3]] == [created, after, status]
    deleted = received[3].object
    assert deleted == with_metadata(status, resourceVersion=deleted["metadata"]["resourceVersion"])
    versions = [change.version for change in received]
    assert versions == sorted(set(versions))
    assert versions == [version_of(change.object) for change in received]


async def test_a_watch_waits_for_the_next_change(store: Store) -> None:
    watch = store.watch(FRAMEWORKS, since=await current_version(store))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not waiting.done()

    created = await store.create(FRAMEWORKS, a_framework())

    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert (await waiting).object == created


async def test_a_watch_can_start_at_an_earlier_version(store: Store) -> None:
    created = await create_frameworks(store, 4)

    received = await changes_since(store, FRAMEWORKS, version_of(created[1]))

    assert received == [(ChangeType.ADDED, "f-02"), (ChangeType.ADDED, "f-03")]


async def test_a_watch_of_one_namespace_reports_only_its_objects(store: Store) -> None:
    since = await current_version(store)
    await store.create(FRAMEWORKS, a_framework("x", "one"))
    await store.create(FRAMEWORKS, a_framework("y", "two"))

    received = await changes_since(store, FRAMEWORKS, since, namespace="two")

    assert received == [(ChangeType.ADDED, "y")]


@pytest.mark.parametrize("started_before", [True, False], ids=["started before", "started after"])
async def test_a_watch_by_label_reports_objects_that_start_or_stop_matching(
    store: Store, started_before: bool
) -> None:
    since = await current_version(store)
    watch = store.watch(FRAMEWORKS, selector=Selector.for_labels({"team": "a"}), since=since)
    waiting = asyncio.ensure_future(anext(watch)) if started_before else None
    await asyncio.sleep(0)

    created = await store.create(FRAMEWORKS, a_framework(labels={"team": "b"}))
    matching = await store.update(FRAMEWORKS, with_metadata(created, labels={"team": "a"}))
    still_matching = await store.update_status(FRAMEWORKS, with_(matching, status={"x": 1}))
    not_matching = await store.update(
        FRAMEWORKS, with_metadata(with_(still_matching, spec={}), labels={"team": "b"})
    )
    await store.update_status(FRAMEWORKS, with_(not_matching, status={"x": 2}))
    await store.delete(FRAMEWORKS, "default", "mnist")
    last = await store.create(FRAMEWORKS, a_framework("last", labels={"team": "a"}))
    received = [await waiting] if waiting else []
    received += await next_changes(watch, 4 - len(received))

    assert [change.type for change in received] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [received[0].object, received[1].object, received[3].object] == [matching, still_matching, last]
    assert received[2].object == with_metadata(
        still_matching, resourceVersion=not_matching["metadata"]["resourceVersion"]
    )
    assert received[2].version == version_of(not_matching)


async def test_a_watch_by_field_reports_objects_that_start_or_stop_matching(store: Store) -> None:
    since = await current_version(store)
    selector = parse(fields="status.phase=Running")
    pod = await store.create(PODS, a_pod())
    running = await store.update_status(PODS, with_(pod, status={"phase": "Running"}))
    ended = await store.update_status(PODS, with_(running, status={"phase": "Failed"}))

    received = await next_changes(store.watch(PODS, selector=selector, since=since), 2)

    assert [change.type for change in received] == ["ADDED", "DELETED"]
    assert received[1].object == with_metadata(running, resourceVersion=ended["metadata"]["resourceVersion"])


async def test_a_watch_by_name_reports_only_that_object(store: Store) -> None:
    since = await current_version(store)
    await create_frameworks(store, 3)
    await store.delete(FRAMEWORKS, "default", "f-01")

    received = await next_changes(store.watch(FRAMEWORKS, selector=Selector.for_name("f-01"), since=since), 2)

    assert [(change.type, change.object["metadata"]["name"]) for change in received] == [
        (ChangeType.ADDED, "f-01"),
        (ChangeType.DELETED, "f-01"),
    ]


async def test_a_watch_from_a_future_version_starts_there(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())
    watch = store.watch(FRAMEWORKS, since=version_of(created) + 2)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)

    for n in range(4):
        await store.create(FRAMEWORKS, a_framework(f"f-{n}"))

    async with asyncio.timeout(TIMEOUT_SECONDS):
        first = await waiting
    assert first.version > version_of(created) + 2


async def test_all_watchers_receive_the_same_changes(store: Store) -> None:
    since = await current_version(store)
    watches = [store.watch(FRAMEWORKS, since=since) for _ in range(5)]
    created = await create_frameworks(store, 3)

    received = [await next_changes(watch, 3) for watch in watches]

    assert all([change.object for change in received_by_watch] == created for received_by_watch in received)


async def test_a_closed_watch_does_not_affect_others(store: Store) -> None:
    since = await current_version(store)
    closed = asyncio.create_task(next_changes(store.watch(FRAMEWORKS, since=since), 1))
    other = store.watch(FRAMEWORKS, since=since)
    await asyncio.sleep(0)
    closed.cancel()
    await asyncio.gather(closed, return_exceptions=True)

    created = await store.create(FRAMEWORKS, a_framework())

    assert [change.object for change in await next_changes(other, 1)] == [created]


async def _replay(store: Store) -> dict[str, Object]:
    """Applies the changes after a list until ``the-end`` is received."""
    page = await store.list(FRAMEWORKS)
    state = {obj["metadata"]["name"]: obj for obj in page.items}
    version = page.version
    while True:  # kube-apiserver closes watches of slow clients
        async for change in store.watch(FRAMEWORKS, since=version):
            name, version = change.object["metadata"]["name"], change.version
            if name == "the-end":
                return state
            if change.type is ChangeType.DELETED:
                del state[name]
            else:
                assert (name in state) is (change.type is ChangeType.MODIFIED)
                state[name] = change.object


async def test_list_and_watch_result_in_the_current_state(store: Store) -> None:
    async def writer(k: int) -> None:
        for n in range(10):
            created = await store.create(FRAMEWORKS, a_framework(f"f-{k}-{n}"))
            created = await store.update_status(FRAMEWORKS, with_(created, status={"n": n}))
            if n % 3 == 0:
                await store.delete(FRAMEWORKS, "default", created["metadata"]["name"])

    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        writers = [tasks.create_task(writer(k)) for k in range(8)]
        readers = []
        for _ in range(10):
            readers.append(tasks.create_task(_replay(store)))
            await asyncio.sleep(0.002)  # so that they begin at different versions
        await asyncio.gather(*writers)
        state = {obj["metadata"]["name"]: obj for obj in (await store.list(FRAMEWORKS)).items}
        await store.create(FRAMEWORKS, a_framework("the-end"))

    assert len(state) == 48
    for each in readers:
        assert each.result() == state
