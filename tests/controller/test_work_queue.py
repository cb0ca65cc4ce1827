import asyncio

from launcher.store.work_queue import WorkQueue
from tests.controller.simulation.virtual_time import run


def test_a_key_added_twice_is_handed_out_once() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        queue.add("b")

        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert len(queue) == 0

    run(story())


def test_f22_a_key_added_ten_times_while_it_is_worked_on_is_handed_out_exactly_once_more() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        for _ in range(10):
            queue.add("a")

        assert len(queue) == 0, "nobody else gets it meanwhile"
        queue.done("a")
        assert [await queue.get(), len(queue)] == ["a", 0]

    run(story())


def test_two_workers_never_have_the_same_key() -> None:
    async def story() -> None:
        queue: WorkQueue[int] = WorkQueue()
        busy: set[int] = set()
        handled: list[int] = []

        async def work() -> None:
            while (key := await queue.get()) is not None:
                assert key not in busy
                busy.add(key)
                await asyncio.sleep(1)
                busy.remove(key)
                handled.append(key)
                queue.done(key)

        workers = [asyncio.create_task(work()) for _ in range(2)]
        for _ in range(20):
            for key in range(3):
                queue.add(key)
            await asyncio.sleep(0.3)
        await asyncio.sleep(10)

        assert set(handled) == {0, 1, 2}
        for worker in workers:
            assert not worker.done()
            worker.cancel()

    run(story())


def test_of_several_delays_the_shortest_counts() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)

        await queue.get()
        assert loop.time() == 10
        queue.done("a")
        await asyncio.sleep(100)
        assert len(queue) == 0, "the longer delays are forgotten"

    run(story())


def test_a_forgotten_key_does_not_come_back() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.forget("a")
        await asyncio.sleep(20)

        assert len(queue) == 0

    run(story())


def test_a_worker_that_is_cancelled_while_it_waits_loses_no_key() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")  # wakes the first
        first.cancel()

        assert await asyncio.wait_for(second, 1) == "a"

    run(story())


def test_a_closed_queue_hands_out_nothing_more_and_lets_everybody_go() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
        await asyncio.sleep(0)
        queue.close()
        queue.add("a")

        assert [await asyncio.wait_for(task, 1) for task in waiting] == [None, None]
        assert await queue.get() is None

    run(story())
