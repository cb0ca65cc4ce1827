"""Events are written in the background, at a pace that leaves the store to those who have work to do."""

import asyncio
from random import Random

from launcher.core.planning.actions import ObjectEvent
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import EVENTS, Object
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.virtual_time import run


def about(number: int) -> Object:
    """One of many objects to which the same thing happens."""
    metadata = {"namespace": "default", "name": f"f{number}", "uid": f"uid-{number}"}
    return {"apiVersion": "launcher.microsoft.com/v1", "kind": "Framework", "metadata": metadata}


async def told(writer: EventRecorder, store: SimulatedStore, events: int, seconds: float) -> int:
    """How many of so many events are written after so many seconds."""
    for number in range(events):
        writer.record(about(number), [ObjectEvent("Started", "it has begun")])
    writing = asyncio.create_task(writer.run())
    await asyncio.sleep(seconds)
    written = len((await store.list(EVENTS)).items)
    writer.close()
    await asyncio.wait_for(writing, 5)
    assert len((await store.list(EVENTS)).items) == events
    return written


def test_a_few_come_at_once_and_many_one_after_the_other_until_it_is_to_end() -> None:
    async def story(events: int, pause: float) -> int:
        store = SimulatedStore(Random(1))
        return await told(EventRecorder(store, store.clock, pause=pause), store, events, seconds=3.0)

    assert run(story(10, 1.0)) == 10
    assert 20 <= run(story(100, 1.0)) <= 25
    assert run(story(100, 0.0)) == 100
