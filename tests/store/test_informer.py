"""Informers: event handlers, faults and restarts."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pytest

from launcher.api.middleware.metrics import Metrics
from launcher.controller.framework_controller import FrameworkController
from launcher.core.errors import Expired, Forbidden, LauncherError, NotFound, TooManyRequests, Unavailable
from launcher.node.garbage_collector.garbage_collector import GarbageCollector
from launcher.node.scheduler import Scheduler
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandler, EventHandlerFuncs, Informer, SharedInformers
from launcher.store.interface import (
    CONFIG_MAPS,
    FRAMEWORKS,
    NODES,
    PODS,
    SECRETS,
    Change,
    ChangeType,
    DeleteOptions,
    Key,
    MergePatch,
    Object,
    Page,
    ResourceKind,
    Store,
    Version,
    version_of,
)
from launcher.store.object_errors import object_errors
from launcher.store.selectors import EVERYTHING, Selector
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.controller.simulation.virtual_time import run
from tests.store.recording_handler import RecordingHandler


def informer_of(store: Store, handler: EventHandler, **options: Any) -> Informer:
    informer = Informer(store, CONFIG_MAPS, **options)
    informer.add_event_handler(handler)
    return informer


def a_config_map(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "data": {},
    }


class FailingHandler(RecordingHandler):
    """Raises an error for every object, after recording it."""

    def on_upsert(self, key: Key, obj: Object) -> None:
        super().on_upsert(key, obj)
        raise ValueError("a bug")


def test_every_handler_receives_the_initial_list_and_each_change_in_order() -> None:
    async def scenario() -> None:
        store, first, second = SimulatedStore(Random(1)), RecordingHandler(), RecordingHandler()
        await store.create(CONFIG_MAPS, a_config_map("listed"))
        informer = Informer(store, CONFIG_MAPS)
        informer.add_event_handler(first)
        informer.add_event_handler(EventHandlerFuncs(second.on_upsert, second.on_delete))
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        await store.create(CONFIG_MAPS, a_config_map("added"))
        await store.patch(CONFIG_MAPS, "default", "added", MergePatch({"data": {"n": "1"}}))
        await store.delete(CONFIG_MAPS, "default", "listed")
        await asyncio.sleep(1)

        assert [(state, name) for state, name, _ in first.calls] == [
            ("upsert", "listed"),
            ("upsert", "added"),
            ("upsert", "added"),
            ("delete", "listed"),
        ]
        assert second.calls == first.calls
        task.cancel()

    run(scenario())


def test_an_error_of_one_handler_is_recorded_and_the_others_are_called() -> None:
    async def scenario() -> None:
        store, failing, other = SimulatedStore(Random(1)), FailingHandler(), RecordingHandler()
        informer = Informer(store, CONFIG_MAPS)
        informer.add_event_handler(failing, component="failing")
        informer.add_event_handler(other, component="other")
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        await store.create(CONFIG_MAPS, a_config_map("a"))
        await store.patch(CONFIG_MAPS, "default", "a", MergePatch({"data": {"n": "1"}}))
        await asyncio.sleep(1)

        assert [error.component for error in object_errors.current() if error.key == ("default", "a")] == [
            "failing"
        ]
        assert len(failing.calls) == len(other.calls) == 2
        task.cancel()

    try:
        run(scenario())
    finally:
        object_errors.resolve("failing", CONFIG_MAPS.plural, ("default", "a"))


def test_a_handler_with_a_selector_is_notified_of_a_deletion_when_an_object_stops_matching() -> None:
    async def scenario() -> None:
        store, mirror = SimulatedStore(Random(1)), RecordingHandler()
        informer = Informer(store, CONFIG_MAPS)
        informer.add_event_handler(mirror, selector=Selector.for_labels({"app": "a"}))
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        await store.create(CONFIG_MAPS, a_config_map("other", app="b"))
        await store.create(CONFIG_MAPS, a_config_map("mine", app="a"))
        await store.patch(CONFIG_MAPS, "default", "mine", MergePatch({"metadata": {"labels": {"app": "b"}}}))
        await store.delete(CONFIG_MAPS, "default", "mine")
        await asyncio.sleep(1)

        assert [(state, name) for state, name, _ in mirror.calls] == [("upsert", "mine"), ("delete", "mine")]
        task.cancel()

    run(scenario())


def test_a_handler_cannot_be_added_to_a_running_informer() -> None:
    async def scenario() -> None:
        informer = Informer(SimulatedStore(Random(1)), CONFIG_MAPS)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        with pytest.raises(ValueError, match="before the informer runs"):
            informer.add_event_handler(RecordingHandler())
        task.cancel()

    run(scenario())


class CountingSimulatedStore(SimulatedStore):
    """Records the kinds that are watched, each time a watch starts."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.watched: list[ResourceKind] = []

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        self.watched.append(kind)
        return super().watch(kind, namespace, selector, since=since, bookmarks=bookmarks, seconds=seconds)


def test_components_with_shared_informers_watch_each_kind_once() -> None:
    async def scenario() -> None:
        store = CountingSimulatedStore(Random(1))
        informers = SharedInformers(store)
        events = EventRecorder(store, store.clock)
        parts = (
            FrameworkController(store, clock=store.clock, jitter=lambda: 0.5, informers=informers),
            Scheduler(store, informers, events=events, clock=store.clock),
            GarbageCollector(store, informers, clock=store.clock),
            informers,
        )
        Metrics(informers)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        await asyncio.sleep(1)

        counts = Counter(store.watched)
        assert counts[PODS] == counts[FRAMEWORKS] == counts[NODES] == 1
        assert max(counts.values()) == 1
        for task in tasks:
            task.cancel()

    run(scenario())


def test_shared_informers_start_in_the_order_of_their_handlers() -> None:
    async def scenario() -> None:
        store, order = SimulatedStore(Random(1)), list[str]()
        await store.create(CONFIG_MAPS, a_config_map("a"))
        await store.create(SECRETS, {**a_config_map("b"), "kind": "Secret"})
        informers = SharedInformers(store)
        for kind in (SECRETS, CONFIG_MAPS):
            informers.add_event_handler(
                kind,
                EventHandlerFuncs(lambda key, _obj: order.append(key[1]), lambda _key: None),
                component="test",
            )
        task = asyncio.create_task(informers.run())
        await asyncio.sleep(1)

        assert order == ["b", "a"]
        task.cancel()

    run(scenario())


@pytest.mark.parametrize("on_server", [False, True])
def test_handlers_with_selectors_receive_the_same_wherever_objects_are_selected(on_server: bool) -> None:
    async def scenario() -> None:
        store, selected, everything = SimulatedStore(Random(1)), RecordingHandler(), RecordingHandler()
        informers = SharedInformers(store, select_on_server=on_server)
        informers.add_event_handler(
            CONFIG_MAPS, selected, component="test", selector=Selector.for_labels({"app": "a"})
        )
        informers.add_event_handler(CONFIG_MAPS, everything, component="test")
        task = asyncio.create_task(informers.run())
        await store.create(CONFIG_MAPS, a_config_map("mine", app="a"))
        await store.create(CONFIG_MAPS, a_config_map("other", app="b"))
        await asyncio.sleep(1)

        assert [name for _, name, _ in selected.calls] == ["mine"]
        assert sorted(name for _, name, _ in everything.calls) == ["mine", "other"]
        task.cancel()

    run(scenario())


async def contents(store: SimulatedStore) -> dict[Key, Object]:
    return {("default", obj["metadata"]["name"]): obj for obj in (await store.list(CONFIG_MAPS)).items}


FAULTS = {
    "calm": Faults(),
    "streams cut": Faults(closed_watches=0.2),
    "events doubled": Faults(duplicate_events=0.5),
    "events late": Faults(late_events=0.5),
    "versions expired": Faults(closed_watches=0.2, expired=0.5),
    "lists stale": Faults(closed_watches=0.3, expired=0.5, stale_lists=0.5),
    "calls refused": Faults(error_responses=0.3, closed_watches=0.2, expired=0.2),
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("seed", range(5))
def test_handlers_receive_the_final_state_after_any_error(faults: Faults, seed: int) -> None:
    faults = replace(faults, old_pages={})

    async def scenario() -> None:
        random = Random(seed)
        store, mirror = SimulatedStore(random), RecordingHandler()
        informer = informer_of(FaultyStore(store, faults, random), mirror)
        task = asyncio.create_task(informer.run())
        numbers = count()
        for _ in range(60):
            there = sorted(await contents(store))
            state = random.random()
            if state < 0.4 or not there:
                created = await store.create(CONFIG_MAPS, a_config_map(f"m{next(numbers)}"))
                if random.random() < 0.5:
                    informer.upsert(created)
            elif state < 0.7:
                patch = MergePatch({"data": {"n": str(next(numbers))}})
                await store.patch(CONFIG_MAPS, *random.choice(there), patch)
            else:
                await store.delete(CONFIG_MAPS, *random.choice(there))
            await asyncio.sleep(random.random())
        faults.disabled = True
        await asyncio.sleep(120)

        assert mirror.objects == await contents(store)
        task.cancel()

    run(scenario())


def test_versions_of_an_object_are_reported_in_order_and_once() -> None:
    async def scenario() -> None:
        random, mirror = Random(1), RecordingHandler()
        store = SimulatedStore(random)
        informer = informer_of(FaultyStore(store, Faults(duplicate_events=0.5), random), mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await store.create(CONFIG_MAPS, a_config_map("a"))
        for number in range(20):
            await store.patch(CONFIG_MAPS, "default", "a", MergePatch({"data": {"n": str(number)}}))
            await asyncio.sleep(1)

        versions = [version for state, _, version in mirror.calls if state == "upsert"]
        assert versions == sorted(set(versions))
        assert len(versions) == 21
        task.cancel()

    run(scenario())


def test_the_result_of_a_write_does_not_restore_a_deleted_object() -> None:
    async def scenario() -> None:
        store, mirror = SimulatedStore(Random(1)), RecordingHandler()
        informer = informer_of(store, mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        answer = await store.create(CONFIG_MAPS, a_config_map("a"))
        await store.delete(CONFIG_MAPS, "default", "a", DeleteOptions())
        await asyncio.sleep(1)

        informer.upsert(answer)

        assert not mirror.objects
        task.cancel()

    run(scenario())


def test_the_result_of_a_write_is_observed_before_the_watch_reports_it() -> None:
    async def scenario() -> None:
        store, mirror = SimulatedStore(Random(1)), RecordingHandler()
        informer = informer_of(store, mirror)
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()

        informer.upsert(await store.create(CONFIG_MAPS, a_config_map("a")))
        assert ("default", "a") in mirror.objects
        await asyncio.sleep(1)
        assert [state for state, *_ in mirror.calls] == ["upsert"], "the watch does not report it again"
        task.cancel()

    run(scenario())


class ClosingStore(SimulatedStore):
    """Streams end at once, or fail."""

    calls = 0
    error: Exception | None = None

    async def watch(  # type: ignore[override]  # it is an async iterator
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
        continue_token: str | None = None,
    ) -> Page:
        self.calls += 1
        return await super().list(kind, namespace, where, limit=limit, continue_token=continue_token)


@pytest.mark.parametrize(
    "error", [None, Expired("old"), Unavailable("down")], ids=["closed", "expired", "down"]
)
def test_a_failing_store_is_retried_with_back_off(error: Exception | None) -> None:
    async def scenario() -> None:
        store = ClosingStore(Random(1))
        store.error = error
        task = asyncio.create_task(informer_of(store, RecordingHandler()).run())
        await asyncio.sleep(600)

        assert 10 < store.calls < 100
        task.cancel()

    run(scenario())


class CountingFailingStore(SimulatedStore):
    """Counts lists and watches; each fails with the next configured error."""

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
        continue_token: str | None = None,
    ) -> Page:
        self.lists.append(limit)
        self.times.append(asyncio.get_running_loop().time())
        if self.fail_lists and (error := self.fail_lists.pop(0)) is not None:
            raise error
        return await super().list(kind, namespace, where, limit=limit, continue_token=continue_token)

    async def watch(  # type: ignore[override]  # it is an async iterator
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


async def synced_informer(
    store: SimulatedStore, mirror: RecordingHandler
) -> tuple[Informer, "asyncio.Task[None]"]:
    """A running informer after its first list."""
    informer = informer_of(store, mirror, jitter=lambda: 0.5)
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    return informer, task


def test_after_an_outage_the_watch_resumes_at_the_last_version() -> None:
    async def scenario() -> None:
        store, mirror = CountingFailingStore(), RecordingHandler()
        _, task = await synced_informer(store, mirror)
        store.fail_watches = [Unavailable("cut"), *[Unavailable("away")] * 5]
        first = await store.create(CONFIG_MAPS, a_config_map("a"))
        await asyncio.sleep(1)
        await store.create(CONFIG_MAPS, a_config_map("b"))
        await store.delete(CONFIG_MAPS, "default", "a")
        await asyncio.sleep(60)

        assert mirror.objects == await contents(store)
        assert len(store.lists) == 2, "the first list of the informer, and that of this test"
        assert store.watches[-1] == version_of(first)
        task.cancel()

    run(scenario())


def test_a_bookmark_advances_the_version_of_the_next_watch() -> None:
    class Bookmarked(CountingFailingStore):
        async def watch(  # type: ignore[override]  # it is an async iterator
            self, *args: object, since: Version, **more: object
        ) -> AsyncIterator[Change]:
            self.watches.append(since)
            if len(self.watches) == 1:
                yield Change(ChangeType.BOOKMARK, {}, since + 41)
                raise Unavailable("cut")
            await asyncio.sleep(1000)

    async def scenario() -> None:
        store = Bookmarked()
        _, task = await synced_informer(store, RecordingHandler())
        await asyncio.sleep(60)

        assert store.watches[1] == store.watches[0] + 41
        assert len(store.lists) == 1
        task.cancel()

    run(scenario())


def test_after_a_version_has_expired_everything_is_listed_once() -> None:
    async def scenario() -> None:
        store, mirror = CountingFailingStore(), RecordingHandler()
        _, task = await synced_informer(store, mirror)
        store.fail_watches = [Expired("too old")]
        await store.create(CONFIG_MAPS, a_config_map("a"))
        await asyncio.sleep(60)

        assert len(store.lists) == 2
        assert set(mirror.objects) == {("default", "a")}
        task.cancel()

    run(scenario())


def test_a_list_that_expires_between_pages_starts_again_and_loses_nothing() -> None:
    async def scenario() -> None:
        store, mirror = CountingFailingStore(), RecordingHandler()
        for number in range(1200):
            await store.create(CONFIG_MAPS, a_config_map(f"m{number:04}"))
        _, task = await synced_informer(store, mirror)
        pages = len(store.lists)
        store.fail_watches = [Expired("too old")]
        store.fail_lists = [None, Expired("that list is too old to go on with")]
        await store.create(CONFIG_MAPS, a_config_map("new"))
        await asyncio.sleep(60)

        assert not any(state == "delete" for state, *_ in mirror.calls)
        assert len(mirror.objects) == 1201
        assert store.lists[:pages] == [500, 500, 500]
        assert store.lists[pages:] == [500, 500, None], "one unpaged list, which cannot expire"
        task.cancel()

    run(scenario())


@pytest.mark.parametrize(
    "error", [Unavailable("down"), Forbidden("no rights yet"), NotFound("no such kind yet")], ids=str
)
def test_the_first_list_is_retried_until_it_succeeds(error: LauncherError) -> None:
    async def scenario() -> None:
        store, mirror = CountingFailingStore(), RecordingHandler()
        store.fail_lists = [error] * 3
        await store.create(CONFIG_MAPS, a_config_map("a"))

        _, task = await synced_informer(store, mirror)

        assert set(mirror.objects) == {("default", "a")}
        assert not store.fail_lists
        task.cancel()

    run(scenario())


def test_retry_after_of_the_store_is_respected() -> None:
    async def scenario() -> None:
        store = CountingFailingStore()
        store.fail_lists = [TooManyRequests("later", retry_after=7.0)]
        _, task = await synced_informer(store, RecordingHandler())

        assert store.times == [0.0, 7.0]
        task.cancel()

    run(scenario())


def test_informers_reconnect_at_different_times() -> None:
    async def scenario() -> None:
        stores = [CountingFailingStore() for _ in range(20)]
        tasks = []
        for number, store in enumerate(stores):
            store.fail_lists = [Unavailable("down")] * 4
            informer = informer_of(store, RecordingHandler(), jitter=Random(number).random)
            tasks.append(asyncio.create_task(informer.run()))
        await asyncio.sleep(60)

        last = sorted(store.times[-1] for store in stores)
        assert len(set(last)) == 20
        assert last[-1] - last[0] > 0.5
        for task in tasks:
            task.cancel()

    run(scenario())
