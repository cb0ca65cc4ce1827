"""The work queue, and the workers that reconcile its keys."""

import asyncio

import pytest

from launcher.core.errors import Unavailable
from launcher.store.instrumentation import queue_backlog, queue_depths
from launcher.store.object_errors import object_errors
from launcher.store.work_queue import WorkQueue, retry_on_error, run_workers
from tests.controller.simulation.virtual_time import run


def test_a_key_added_twice_is_returned_once() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        queue.add("b")

        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 0

    run(scenario())


def test_f22_a_key_added_ten_times_while_in_work_is_returned_exactly_once_more() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        for _ in range(10):
            queue.add("a")

        assert len(queue) == 0, "no other worker gets the key"
        queue.done("a")
        assert [await queue.get(), len(queue)] == ["a", 0]

    run(scenario())


def test_the_backlog_is_the_number_of_waiting_keys_and_the_age_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("launcher.store.work_queue.time.monotonic", lambda: now)

    async def scenario() -> None:
        nonlocal now
        queue: WorkQueue[str] = WorkQueue("backlog")
        assert queue_backlog("backlog") == (0, 0.0)
        queue.add("a")
        now += 4
        queue.add("b")
        now += 3
        assert queue_backlog("backlog") == (2, 7.0)
        await queue.get()
        assert queue_backlog("backlog") == (1, 3.0)

    run(scenario())


def test_two_workers_never_reconcile_the_same_key_at_once() -> None:
    async def scenario() -> None:
        queue: WorkQueue[int] = WorkQueue()
        busy: set[int] = set()
        handled: list[int] = []

        async def reconcile(key: int) -> None:
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(1)
            busy.remove(key)
            handled.append(key)

        workers = asyncio.create_task(run_workers(queue, reconcile, 2))
        for _ in range(20):
            for key in range(3):
                queue.add(key)
            await asyncio.sleep(0.3)
        await asyncio.sleep(10)

        assert set(handled) == {0, 1, 2}
        assert not workers.done()
        workers.cancel()

    run(scenario())


def test_of_several_delays_the_shortest_counts() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)

        await queue.get()
        assert loop.time() == 10
        queue.done("a")
        await asyncio.sleep(100)
        assert len(queue) == 0, "the longer delays are dropped"

    run(scenario())


def test_a_forgotten_key_is_not_queued_by_its_timer() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.forget("a")
        await asyncio.sleep(20)

        assert len(queue) == 0

    run(scenario())


def test_a_cancelled_worker_loses_no_key() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")  # wakes the first
        first.cancel()

        assert await asyncio.wait_for(second, 1) == "a"

    run(scenario())


def test_a_closed_queue_returns_none_to_all_workers() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
        await asyncio.sleep(0)
        queue.close()
        queue.add("a")

        assert [await asyncio.wait_for(task, 1) for task in waiting] == [None, None]
        assert await queue.get() is None

    run(scenario())


def test_a_closed_queue_reports_no_keys() -> None:
    async def scenario() -> tuple[int, int]:
        queue: WorkQueue[str] = WorkQueue("closed")
        queue.add("a")
        queued = queue_depths()["closed"]
        queue.close()
        queue.add("b")
        return queued, queue_depths()["closed"]

    assert run(scenario()) == (1, 0)


def test_workers_return_when_the_queue_is_closed_after_the_key_in_work() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        reconciled: list[str] = []

        async def reconcile(key: str) -> None:
            await asyncio.sleep(1)
            reconciled.append(key)

        queue.add("a")
        workers = asyncio.create_task(run_workers(queue, reconcile, 2))
        await asyncio.sleep(0.5)
        queue.close()
        queue.add("b")

        await asyncio.wait_for(workers, 5)
        assert reconciled == ["a"]

    run(scenario())


@pytest.mark.parametrize(
    "error", [pytest.param(Unavailable("not yet"), id="expected"), pytest.param(KeyError("bug"), id="a bug")]
)
def test_a_failed_reconcile_is_retried_with_growing_delays(error: Exception) -> None:
    async def scenario() -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        times: list[float] = []

        async def reconcile(_key: str) -> None:
            times.append(round(asyncio.get_running_loop().time(), 1))
            if len(times) in (1, 2, 3, 5):
                raise error

        queue.add("a")
        workers = asyncio.create_task(
            run_workers(queue, retry_on_error(queue, reconcile, "test", "things"), 1)
        )
        await asyncio.sleep(50)
        queue.add("a")
        await asyncio.sleep(50)
        workers.cancel()
        return times

    assert run(scenario()) == [0.0, 0.1, 0.3, 0.7, 50.0, 50.1], "a success resets the delay"


def test_an_unexpected_error_is_recorded_until_the_next_success() -> None:
    component = "fails-once"  # no other test of this process uses it

    async def scenario() -> None:
        queue: WorkQueue[tuple[str, str]] = WorkQueue()
        recorded: list[list[tuple[str, str]]] = []

        async def reconcile(_key: tuple[str, str]) -> None:
            recorded.append([each.key for each in object_errors.current() if each.component == component])
            if len(recorded) == 1:
                raise KeyError("bug")

        queue.add(("default", "a"))
        workers = asyncio.create_task(
            run_workers(queue, retry_on_error(queue, reconcile, component, "things"), 1)
        )
        await asyncio.sleep(5)
        workers.cancel()

        assert recorded == [[], [("default", "a")]]
        assert [each for each in object_errors.current() if each.component == component] == []

    run(scenario())
