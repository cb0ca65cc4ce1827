"""Waiting for something, but not for ever."""

import asyncio
from contextlib import suppress


async def happens(event: asyncio.Event, within: float | None) -> None:
    """Return when the event is set, or so many seconds are over; None is as long as it takes."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
