"""Growing pauses between tries that fail."""

import asyncio
from contextlib import suppress


async def wait_or_timeout(event: asyncio.Event, within: float | None) -> None:
    """Return when the event is set, or so many seconds are over; None is as long as it takes."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()


class ExponentialBackoff:
    """Seconds to wait: *first*, then twice as long each time, up to *most*."""

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self.failures = 0

    def next_delay(self) -> float:
        """How long to wait after one more failure."""
        # Beyond 2**30 the cap has long been reached; the bound keeps the number small.
        delay = min(self._most, self._first * (1 << min(self.failures, 30)))
        self.failures += 1
        return delay

    def reset(self) -> None:
        """It worked again."""
        self.failures = 0
