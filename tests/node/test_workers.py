"""Things to see to: each once, by one worker at a time, again if it fails."""

import asyncio

from launcher.core.errors import Unavailable
from launcher.node.garbage_collector.workers import Chores
from tests.controller.simulation import virtual_time
from tests.node.clusters import running


def test_what_is_asked_for_many_times_is_seen_to_once() -> None:
    async def scene() -> list[str]:
        done: list[str] = []

        async def see_to(what: str) -> None:
            done.append(what)

        chores = Chores(see_to, "things")
        for what in ("a", "b", "a", "a"):
            chores.add(what)
        async with running(chores):
            await asyncio.sleep(1)
        return done

    assert virtual_time.run(scene()) == ["a", "b"]


def test_what_is_asked_for_while_it_is_seen_to_is_seen_to_again_afterwards() -> None:
    async def scene() -> list[str]:
        done: list[str] = []

        async def see_to(what: str) -> None:
            done.append(f"begin {what}")
            await asyncio.sleep(1)
            done.append(f"end {what}")

        chores = Chores(see_to, "things")
        chores.add("a")
        async with running(chores):
            await asyncio.sleep(0.5)
            chores.add("a")
            await asyncio.sleep(5)
        return done

    assert virtual_time.run(scene()) == ["begin a", "end a", "begin a", "end a"]


def test_what_fails_comes_again_after_growing_pauses() -> None:
    async def scene() -> list[float]:
        times: list[float] = []

        async def see_to(_what: str) -> None:
            times.append(round(asyncio.get_running_loop().time(), 1))
            if len(times) < 4:
                raise Unavailable("not yet")

        chores = Chores(see_to, "things")
        chores.add("a")
        async with running(chores):
            await asyncio.sleep(100)
        return times

    assert virtual_time.run(scene()) == [0.0, 0.1, 0.3, 0.7]


def test_what_can_wait_is_seen_to_later_unless_it_is_asked_for_sooner() -> None:
    async def scene() -> list[tuple[str, float]]:
        done: list[tuple[str, float]] = []

        async def see_to(what: str) -> None:
            done.append((what, round(asyncio.get_running_loop().time(), 1)))

        chores = Chores(see_to, "things")
        async with running(chores):
            chores.later("a", 10)
            chores.later("b", 10)
            await asyncio.sleep(2)
            chores.add("b")
            await asyncio.sleep(20)
        return done

    assert virtual_time.run(scene()) == [("b", 2.0), ("a", 10.0)]
