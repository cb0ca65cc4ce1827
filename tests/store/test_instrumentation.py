import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from launcher.core.errors import Conflict, Expired
from launcher.store import instrumentation
from launcher.store.informer import EventHandlerFuncs, Informer
from launcher.store.interface import PODS, Change, Page
from launcher.store.work_queue import WorkQueue, retry_on_error, run_workers


class RecordingObserver:
    """Records all measurements."""

    def __init__(self) -> None:
        self.reconciles: Counter[str] = Counter()
        self.retries: list[tuple[str, str]] = []
        self.restarts: list[tuple[str, str]] = []
        self.requests: Counter[str] = Counter()

    def reconcile_completed(self, controller: str, seconds: float) -> None:
        assert seconds >= 0
        self.reconciles[controller] += 1

    def reconcile_retried(self, controller: str, reason: str) -> None:
        self.retries.append((controller, reason))

    def watch_restarted(self, resource: str, reason: str) -> None:
        self.restarts.append((resource, reason))

    def request_completed(self, verb: str, seconds: float) -> None:
        assert seconds >= 0
        self.requests[verb] += 1


@pytest.fixture
def observer() -> RecordingObserver:
    return RecordingObserver()


async def test_the_depth_of_a_queue_is_the_number_of_queued_keys() -> None:
    queue: WorkQueue[str] = WorkQueue("depth-test")
    queue.add("a")
    queue.add("b")
    queue.add("a")

    depth = instrumentation.queue_depths()["depth-test"]
    await queue.get()

    assert depth == 2
    assert instrumentation.queue_depths()["depth-test"] == 1


async def test_reconciles_and_retries_are_reported_by_controller_and_reason(
    observer: RecordingObserver,
) -> None:
    queue: WorkQueue[str] = WorkQueue("test")
    errors = {"a": Conflict("stale"), "b": KeyError("bug"), "c": None}

    async def reconcile(key: str) -> None:
        if (error := errors.pop(key)) is not None:
            raise error
        if not errors:
            queue.close()

    for key in ("a", "b", "c"):
        queue.add(key)
    with instrumentation.observe_runtime(observer):
        async with asyncio.timeout(20):
            await run_workers(queue, retry_on_error(queue, reconcile, "test", "tests"), 1)

    assert observer.reconciles == {"test": 3}
    assert observer.retries == [("test", "Conflict"), ("test", "Unexpected")]


class ExpiringStore:
    """A store whose first watch has expired, and whose second one ends."""

    def __init__(self) -> None:
        self.watches = 0
        self.blocked = asyncio.Event()

    async def list(self, *_: object, **__: object) -> Page:
        return Page([], 1, None, 0)

    async def watch(self, *_: object, **__: object) -> AsyncIterator[Change]:
        self.watches += 1
        if self.watches == 1:
            raise Expired("too old")
        if self.watches > 2:
            self.blocked.set()
            await asyncio.Event().wait()
        changes: list[Change] = []
        for change in changes:
            yield change


async def test_restarts_of_a_watch_are_reported_by_reason(observer: RecordingObserver) -> None:
    store = ExpiringStore()
    handler = EventHandlerFuncs(lambda *_: None, lambda _: None)
    informer = Informer(store, PODS, handler, jitter=lambda: 0.0)  # type: ignore[arg-type]  # only lists and watches

    with instrumentation.observe_runtime(observer):
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(20):
            await store.blocked.wait()
        running.cancel()

    assert observer.restarts == [("pods", "Expired"), ("pods", "Ended")]
