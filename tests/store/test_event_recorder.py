"""The event recorder writes in the background, with a rate limit."""

import asyncio
from random import Random

from launcher.core.events import ObjectEvent
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import EVENTS, Object
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.virtual_time import run


def a_framework(number: int) -> Object:
    """One of many Frameworks with the same event."""
    metadata = {"namespace": "default", "name": f"f{number}", "uid": f"uid-{number}"}
    return {"apiVersion": "launcher.microsoft.com/v1", "kind": "Framework", "metadata": metadata}


async def stored_after(writer: EventRecorder, store: SimulatedStore, events: int, seconds: float) -> int:
    """Records *events* events; returns the number that is stored after *seconds*."""
    for number in range(events):
        writer.record(a_framework(number), [ObjectEvent("Started", "The Framework started.")])
    task = asyncio.create_task(writer.run())
    await asyncio.sleep(seconds)
    stored = len((await store.list(EVENTS)).items)
    writer.close()
    await asyncio.wait_for(task, 5)
    assert len((await store.list(EVENTS)).items) == events
    return stored


def test_bursts_of_events_are_rate_limited_until_close() -> None:
    async def scenario(events: int, interval: float) -> int:
        store = SimulatedStore(Random(1))
        return await stored_after(
            EventRecorder(store, store.clock, interval=interval), store, events, seconds=3.0
        )

    assert run(scenario(10, 1.0)) == 10
    assert 20 <= run(scenario(100, 1.0)) <= 25
    assert run(scenario(100, 0.0)) == 100
